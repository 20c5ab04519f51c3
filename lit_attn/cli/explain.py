"""How does `lit-attn explain` work? Chosen samples and methods in; arrays, pictures and tables of faithfulness out."""

import argparse
import logging
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from lit_attn.cli.arguments import Parser
from lit_attn.cli.recipes import find_recipe
from lit_attn.errors import UserError

if TYPE_CHECKING:
    from lit_attn.explain.case import Case

DEFAULT_METHODS = "raw,rollout,gae,heterogenous_pos"
SECONDS_BETWEEN_LINES = 15.0
FOREIGN = ("hf:", "timm:")
METHODS_HELP = """Methods of `lit-attn explain --methods A,B,…`

  follow attention, for every model that has a plan
    raw                  the last map onto each stream, heads averaged
    rollout              layers multiplied (Abnar and Zuidema 2020); rollout_corrected: without the bias of causal masks
    flow                 attention flow, exact, normalised; the share of saturated inputs stands beside it
    grad_cam             the last maps, weighed by their gradients
    gae                  Chefer et al. 2021
    heterogenous_pos     Cui et al.; also heterogenous_abs, heterogenous_noise (with the noise link)
    logical              the same with signs: use it with --versus
    semantic             what streams hold of themselves before they meet
    t_attr, partial_lrp  with LRP relevance; not for MAC: there is no rule for its LSTM
  ask the inputs, for every model
    blank_out            |p - p without the item|
    gradient             length of the gradient of the first features; gradient_x_input; odam: its positive part
    random               knows nothing

  captioner, paragraph   all
  MAC                    all but t_attr and partial_lrp
  M4C                    all
  BERT family, GPT-2, ViT, timm's ViT, LXMERT, DETR   all that follow attention, and those that ask inputs
  SCAN, DAMSM, AttnGAN   none: no row is the output's own
  Swin, deformable attention   none: there are no weights between all positions
"""


def run(argv: list[str]) -> int:
    if "--methods" in argv and argv[argv.index("--methods") + 1 :][:1] == ["help"]:
        sys.stdout.write(METHODS_HELP)
        return 0
    words, settings = _data_settings(argv)
    options = _parser().parse_args(words)
    with _speaking_once():
        return _run(options, settings)


def _run(options: argparse.Namespace, settings: dict[str, Any]) -> int:
    recipe = yaml.safe_load(find_recipe(options.recipe).read_text(encoding="utf-8")) if options.recipe else None
    if options.truth:
        from lit_attn.cli.studied_runs import runs_of
        from lit_attn.explain.truth_table import explain_truth

        chosen = _methods(options.methods) if options.methods else None
        foreign = [name for name in options.models if name.startswith(FOREIGN)]
        if foreign:
            raise UserError(f"--truth needs models of Scenes, whose causes are known; {foreign[0]!r} is none.")
        out = Path(options.out or "truth")
        explain_truth(
            [run for name in options.models for run in runs_of(name)],
            chosen,
            options.samples or 100,
            out,
            recipe,
            settings,
            lambda runs: _followed(runs, len(runs), "models"),
        )
        _say((out / "truth.md").read_text(encoding="utf-8"))
        _say(f"written: {out}/truth.csv, truth.md, truth.png")
        return 0
    if len(options.models) > 1:
        raise UserError("Several models are compared with --truth; explain one model at a time otherwise.")
    return _explain(options, recipe, settings)


@contextmanager
def _speaking_once() -> Iterator[None]:
    """Inside, our warnings appear on stderr, each once: parts of a set would repeat them."""
    said: set[str] = set()

    def new(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        fresh = text not in said
        said.add(text)
        return fresh

    logger, handler = logging.getLogger("lit_attn"), logging.StreamHandler(sys.stderr)
    handler.addFilter(new)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _parser() -> Parser:
    parser = Parser(
        prog="lit-attn explain",
        description="Which inputs caused an output, by several methods, and how faithful is each of them?",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="`lit-attn explain --methods help` lists the methods and which models they work for.",
    )
    add = parser.add_argument
    add(
        "models",
        nargs="+",
        metavar="MODEL",
        help="a shipped name, a run folder (with --truth also a study), a weight file, hf:FOLDER_OR_ID, timm:NAME",
    )
    add("--methods", help=f"names with commas between, or `help` (default {DEFAULT_METHODS})")
    add("--samples", type=int, help="how many samples (default 4; with --truth 100)")
    add("--start", type=int, default=0, help="number of the first sample")
    add("--stage", default="val", choices=("val", "test", "predict"), help="which samples of the data")
    add("--out", help="folder of the results (default explained/MODEL)")
    add("--target", help="class to explain, by name or number (default: the model's own answer)")
    add("--versus", help="explain the class against this one: logical inspection")
    add("--compare", default="difference", choices=("difference", "ratio"), help="of the two scores, with --versus")
    add("--caption", choices=("gold", "written"), help="captions: those of the data, or what the model writes")
    add("--words", default="auto", help="captions: heads, all, a word, or a place from 0 (default: heads where known)")
    add("--step", type=int, default=0, help="M4C: which word of the answer, from 0")
    add("--recipe", help="data for a weight file that does not name them")
    add("--text", action="append", help="hf: a sentence, or a text file with one per line; may be repeated")
    add("--images", help="hf, timm: a picture or a folder of pictures")
    add("--regions", help="hf LXMERT: regions of the pictures, as `lit-attn extract regions` writes them")
    add("--question", help="hf LXMERT: the question")
    add("--query", type=int, help="hf DETR: which object query (default: the surest ones)")
    add(
        "--row",
        type=int,
        help="hf GPT-2 and masked language models: place of the token that answers (default: the last, or the mask)",
    )
    add("--truth", action="store_true", help="score methods against the known causes of Scenes, over several runs")
    add("--no-faithfulness", action="store_true", help="maps and pictures only")
    add("--no-pictures", action="store_true", help="arrays and tables only")
    return parser


def _data_settings(argv: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """`--data.key value` and `--data.key=value` set the data of the model."""
    words, settings, rest = [], {}, iter(argv)
    for word in rest:
        if not word.startswith("--data."):
            words.append(word)
            continue
        key, equals, value = word.removeprefix("--data.").partition("=")
        found = value if equals else next(rest, None)
        if found is None:
            raise UserError(f"--data.{key} needs a value.")
        settings[key] = yaml.safe_load(found)
    return words, settings


def _methods(text: str) -> list[str]:
    from lit_attn.attribution.explain import known_methods

    return known_methods([name.strip() for name in text.split(",") if name.strip()], inputs=True)


def _explain(options: argparse.Namespace, recipe: Any, settings: dict[str, Any]) -> int:
    from lit_attn.explain.pipeline import explain_cases

    name = options.models[0]
    methods = _methods(options.methods or DEFAULT_METHODS)
    if not methods:
        raise UserError("--methods names none. See lit-attn explain --methods help.")
    if options.versus and "logical" not in methods:
        methods.append("logical")
    cases, count = _foreign(name, options) if name.startswith(FOREIGN) else _ours(name, options, recipe, settings)
    asked = (case.about(options.target, options.versus, options.compare) for case in cases)
    out = Path(options.out or Path("explained") / Path(name.rpartition(":")[2]).name)
    begun = time.monotonic()
    outcome = explain_cases(_followed(asked, count, "parts"), methods, faithfulness=not options.no_faithfulness)
    if not outcome.index:
        raise UserError("There is nothing to explain: no sample has such a word or answer.")
    number = outcome.index[-1]["number"] + 1
    outcome.write(
        out, {"model": name, "samples": number, "methods": methods, "target": options.target, "versus": options.versus}
    )
    _say((out / "faithfulness.md").read_text(encoding="utf-8"))
    files = [] if options.no_pictures else outcome.draw(out)
    pictures = f", {len(files)} sheets in {out}/pictures" if files else ""
    _say(
        f"{number} explanations in {time.monotonic() - begun:.0f} s: {out}/maps.npz, maps.json, faithfulness.md{pictures}"
    )
    return 0


def _ours(
    name: str, options: argparse.Namespace, recipe: Any, settings: dict[str, Any]
) -> tuple[Iterator["Case"], int]:
    from lit_attn.explain.model import load_model
    from lit_attn.explain.ours import Chosen, cases, total

    model = load_model(name, recipe, settings)
    chosen = Chosen(
        options.samples or 4, options.start, options.stage, options.caption, options.words, options.step,
        pictures=not options.no_pictures,
    )  # fmt: skip
    return cases(model, chosen), -(-total(model, chosen) // 8)


def _foreign(name: str, options: argparse.Namespace) -> tuple[Iterator["Case"], int]:
    from lit_attn.explain.foreign import Given, foreign_cases

    given = Given(
        texts=tuple(options.text or ()), images=options.images, regions=options.regions, question=options.question,
        query=options.query, row=options.row, most=options.samples,
    )  # fmt: skip
    found = list(foreign_cases(name, given))
    return iter(found), len(found)


def _followed(cases: Iterable[Any], total: int, what: str) -> Iterator[Any]:
    """The same, with a progress bar on a terminal and a line now and then in a log."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(highlight=False, soft_wrap=True, stderr=True)
    if console.is_terminal:
        columns = (TextColumn(f"explaining {what}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console) as progress:
            yield from progress.track(cases, max(total, 1))
        return
    begun = last = time.monotonic()
    for done, case in enumerate(cases, 1):
        yield case
        if time.monotonic() - last > SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            sys.stderr.write(f"[{last - begun:6.0f} s] {done} {what}\n")


def _say(text: str) -> None:
    sys.stdout.write(text if text.endswith("\n") else text + "\n")
    sys.stdout.flush()
