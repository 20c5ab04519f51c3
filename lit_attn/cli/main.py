"""What does the user want? The only reader of argv: picks the verb, and turns failures into short messages and codes.

Codes: 0 done, 1 a failure of ours, 2 bad usage, configuration or data, 130 interrupted, 143 terminated.
Light verbs import no torch, so they answer at once.
"""

import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from lit_attn import __version__
from lit_attn.errors import UserError, did_you_mean

HELP = f"""lit-attn {__version__}: train vision-and-language models and probe their attention

usage: lit-attn VERB ...

  fit RECIPE [--model.alignment NAME] [--run NAME]   train; also --resume auto, --ckpt_path last, --from_weights FILE
  validate | test | predict RECIPE --ckpt_path FILE  score a trained model, or --from_weights FILE.safetensors
  ablate RECIPE --config probes/all --ckpt_path FILE mute one head at a time: which heads matter, and do probes tell?
  compare RECIPE --config probes/all … --against LM  our model and a language model on the same words, by the same probes
  explain MODEL [--methods A,B] [--samples N]        which inputs caused an output, by many methods, and how faithful each is
  convert ort|attngan FILE …                         published weights into ours
  extract regions | grid | ocr IMAGES --out PLACE    features and words of your own pictures
  prepare labels KARPATHY.json --out FOLDER          vocabulary and labels in the public layout
  prepare annotations CAPTIONS [--pipeline NAME]     grammar, noun phrases and spatial triples of captions, once
  prepare links CAPTIONS --regions PLACE             which detections their noun phrases name, once; --page draws them
  report RUN [RUN ...] [--out FOLDER]                tables, figures and one HTML page from run folders
  report --demo                                      the same of the shipped models, without any training
  study RECIPE … [--alignments all] [--seeds 0,1,2]  the grid of runs, then one table with the noise shown
  correlate MODEL --out FOLDER                       does attention rank tokens as blank-out and gradients do?
  recipes ls | show NAME | copy NAME [FILE]          what is shipped
  doctor                                             what is installed, and what each missing thing disables

A RECIPE is a shipped name (lit-attn recipes ls) or a YAML file; --config FILE may be repeated, the later wins.
`lit-attn fit --help` lists every option; --print_config shows the whole configuration. --debug shows tracebacks.
"""

REPORT_USAGE = "Usage: lit-attn report RUN [RUN ...] [--out FOLDER], or lit-attn report --demo [--out FOLDER]"
TRAINING = ("fit", "validate", "test", "predict")


def main(argv: Sequence[str]) -> int:
    debug = "--debug" in argv
    words = [word for word in argv if word != "--debug"]
    try:
        return dispatch(words)
    except UserError as error:
        if debug:
            traceback.print_exc()
        _say_error(str(error))
        return 2
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except Exception as error:
        if debug:
            traceback.print_exc()
        hint = "" if debug else " Run again with --debug for the traceback."
        _say_error(f"failed: {type(error).__name__}: {error}.{hint}")
        return 1


def dispatch(argv: Sequence[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        _say(HELP)
        return 0
    if argv[0] in ("-V", "--version"):
        _say(f"lit-attn {__version__}")
        return 0
    verb, rest = argv[0], list(argv[1:])
    if verb in TRAINING:
        from lit_attn.cli.training import run

        return run(verb, rest)
    verbs: dict[str, Callable[[list[str]], int]] = {
        "recipes": _recipes,
        "doctor": _doctor,
        "report": _report,
        "ablate": _ablate,
        "compare": _compare,
        "explain": _explain,
        "convert": _convert,
        "extract": _extract,
        "prepare": _prepare,
        "correlate": _correlate,
        "study": _study,
    }
    if verb == "_nursery":  # the process that starts the runs of a study
        return _nursery(rest)
    if verb not in verbs:
        known = [*TRAINING, *verbs]
        raise UserError(f"Unknown verb {verb!r}.{did_you_mean(verb, known)} Known: {', '.join(known)}.")
    return verbs[verb](rest)


def _recipes(argv: list[str]) -> int:
    from lit_attn.cli import recipes

    match argv:
        case [] | ["ls"]:
            _say(recipes.list_recipes())
        case ["show", name]:
            _say(recipes.find_recipe(name).read_text(encoding="utf-8"))
        case ["copy", name]:
            _say(str(recipes.copy_recipe(name, Path.cwd())))
        case ["copy", name, target]:
            _say(str(recipes.copy_recipe(name, Path(target))))
        case _:
            raise UserError("Usage: lit-attn recipes ls | show NAME | copy NAME [FILE]")
    return 0


def _doctor(argv: list[str]) -> int:
    from lit_attn.cli.doctor import examine

    if argv:
        raise UserError("Usage: lit-attn doctor")
    _say(examine())
    return 0


def _report(argv: list[str]) -> int:
    from lit_attn.report.page import write_report

    runs, out, demo = [], None, False
    words = iter(argv)
    for word in words:
        if word == "--out":
            out = Path(next(words, ""))
        elif word == "--demo":
            demo = True
        elif word.startswith("-"):
            raise UserError(f"Unknown option {word!r}. {REPORT_USAGE}")
        else:
            runs.append(_run_folder(word))
    if demo:
        if runs:
            raise UserError(f"--demo shows the shipped models; it takes no run, such as {runs[0]}. {REPORT_USAGE}")
        from lit_attn.cli.demo import demonstrate

        _say(f"report: {demonstrate(out or Path('checkpoints/demo'))}")
        return 0
    studies = [run for run in runs if (run / "study.json").is_file()]
    if studies and (len(runs) > 1 or out is not None):
        raise UserError(f"{studies[0]} is a study; report it alone and without --out, or name its run folders.")
    if studies:
        from lit_attn.report.study_report import write_study_report

        for path in write_study_report(studies[0]):
            _say(f"report: {path}")
        return 0
    if not runs:
        raise UserError(REPORT_USAGE)
    _say(f"report: {write_report(runs, out)}")
    return 0


def _ablate(argv: list[str]) -> int:
    from lit_attn.cli.ablating import run

    return run(argv)


def _compare(argv: list[str]) -> int:
    from lit_attn.cli.comparing import run

    return run(argv)


def _explain(argv: list[str]) -> int:
    from lit_attn.cli.explain import run

    return run(argv)


def _convert(argv: list[str]) -> int:
    from lit_attn.cli.convert import run

    return run(argv)


def _extract(argv: list[str]) -> int:
    from lit_attn.cli.extract import run

    return run(argv)


def _correlate(argv: list[str]) -> int:
    from lit_attn.cli.correlate import run

    return run(argv)


def _prepare(argv: list[str]) -> int:
    from lit_attn.cli.prepare import run

    return run(argv)


def _study(argv: list[str]) -> int:
    from lit_attn.cli.study import run

    return run(argv)


def _nursery(argv: list[str]) -> int:
    from lit_attn.cli.study import nursery

    return nursery(argv, main)


def _run_folder(word: str) -> Path:
    """A run by its path, or by its name below `checkpoints`."""
    path = Path(word)
    return path if path.exists() or path.is_absolute() else Path("checkpoints") / path.name


def _say(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else text + "\n")


def _say_error(text: str) -> None:
    sys.stderr.write(f"lit-attn: {text}\n")


def entry() -> None:
    sys.exit(main(sys.argv[1:]))
