"""How do published weights become ours? `lit-attn convert FAMILY FILE`, without running anything that a file contains."""

import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lit_attn.checkpoint import Weights, write_weights
from lit_attn.cli.arguments import Parser
from lit_attn.cli.convert_bert import run_bert
from lit_attn.errors import UserError, did_you_mean
from lit_attn.models import attngan_weights
from lit_attn.models.captioner_weights import convert, settings_of
from lit_attn.unpickle import read_pickle
from lit_attn.vocabulary import CaptionWords

log = logging.getLogger("lit_attn")

TASK = "lit_attn.tasks.captioning.Captioning"
SYNTHESIS_TASK = "lit_attn.tasks.synthesis.Synthesis"
DAMSM_TASK = "lit_attn.tasks.damsm.DamsmTraining"
USAGE = """usage: lit-attn convert ort FILE --legacy-extra-skip on|off [--infos FILE] [--out FILE]
       lit-attn convert attngan FILE [FILE ...] [--captions captions.pickle] [--out FILE]
       lit-attn convert bert FOLDER [--out FILE]
"""
SKIP_HELP = (
    "Nothing in the weights tells whether the network was trained with the extra skip, and with the wrong choice its "
    "captions are silently worse. The released self-critical model (log_relation_transformer_bu_rl) needs `on`, the "
    "cross-entropy models `off`."
)


def run(argv: list[str]) -> int:
    families: dict[str, Callable[[list[str]], None]] = {"ort": _run_ort, "attngan": _run_attngan, "bert": run_bert}
    if not argv or argv[0] in ("-h", "--help"):
        sys.stdout.write(USAGE)
    elif argv[0] not in families:
        raise UserError(f"Unknown family {argv[0]!r}.{did_you_mean(argv[0], families)} Known: {', '.join(families)}.")
    else:
        families[argv[0]](argv[1:])
    return 0


def _run_ort(argv: list[str]) -> None:
    parser = Parser(
        prog="lit-attn convert ort",
        description="The released object-relation transformer as a safetensors file of ours.",
    )
    parser.add_argument("file", type=Path, help="model-best.pth, as the original code saved it")
    parser.add_argument("--infos", type=Path, help="infos_….pkl with options and vocabulary (default: beside the file)")
    parser.add_argument("--legacy-extra-skip", choices=("on", "off"), help=SKIP_HELP)
    parser.add_argument("--out", type=Path, help="where to write (default: FILE with .safetensors)")
    given = parser.parse_args(argv)
    out = given.out or given.file.with_suffix(".safetensors")
    converted = convert_ort(given.file, given.infos or _infos_beside(given.file), given.legacy_extra_skip)
    write_weights(converted, out)
    _tell(out, converted)


def _run_attngan(argv: list[str]) -> None:
    parser = Parser(
        prog="lit-attn convert attngan",
        description="Released networks of AttnGAN as one safetensors file of ours: a generator, DAMSM's two encoders, or "
        "all of them. What a file holds is told by its tensors.",
    )
    parser.add_argument("files", type=Path, nargs="+", help="netG_….pth, text_encoder….pth, image_encoder….pth")
    parser.add_argument("--captions", type=Path, help="captions.pickle of the data set, which holds the vocabulary")
    parser.add_argument("--out", type=Path, help="where to write (default: the first FILE with .safetensors)")
    given = parser.parse_args(argv)
    out = given.out or given.files[0].with_suffix(".safetensors")
    converted = convert_attngan(given.files, given.captions)
    write_weights(converted, out)
    words = "no words: add --captions captions.pickle" if converted.words is None else f"{len(converted.words)} words"
    settings = ", ".join(f"{name} {value}" for name, value in converted.hyperparameters.items())
    sys.stdout.write(f"{out}: {len(converted.tensors)} tensors, {words}\n{settings}\n")


def convert_attngan(files: Sequence[Path], captions: Path | None = None) -> Weights:
    """The networks of these files under the names of the task that owns them, with the sizes that their tensors tell.

    With a generator among them it is the task of synthesis, else that of DAMSM. Discriminators are not published with the
    others, and are not converted. Without `captions`, the weights carry no words.
    """
    networks: dict[str, dict[str, Tensor]] = {}
    settings: dict[str, Any] = {}
    for file in files:
        try:
            kind, tensors = attngan_weights.convert(_read_tensors(file))
            told = attngan_weights.settings_of(kind, tensors)
        except UserError as error:
            raise UserError(f"{file}: {error}") from error
        if kind in networks:
            raise UserError(f"{file} is a second {kind} network. Convert one of each kind at a time.")
        networks[kind] = tensors
        for name, value in told.items():
            if settings.setdefault(name, value) != value:
                raise UserError(f"{file} has {name} {value}, the others {settings[name]}: they do not belong together.")
    if settings.get("text_dim", settings.get("dim")) != settings.get("dim", settings.get("text_dim")):
        raise UserError(
            f"The generator reads text of width {settings['text_dim']}, the encoders have {settings['dim']}: "
            "they do not belong together."
        )
    words = None if captions is None else read_captions_words(captions)
    if words is not None and settings.get("vocab_size", len(words)) != len(words):
        raise UserError(
            f"The text encoder has {settings['vocab_size']} ids and {captions} {len(words)} with END: "
            "they do not belong together."
        )
    whole = "generator" in networks
    if whole:  # the task of synthesis calls the width of the joint space after the text
        settings.pop("dim", None)
    named = {
        f"{kind}.{name}" if whole else f"net.{kind}.{name}": tensor
        for kind, tensors in networks.items()
        for name, tensor in tensors.items()
    }
    return Weights(
        files[0],
        named,
        settings,
        None if words is None else words.fingerprint,
        None if words is None else words.words,
        SYNTHESIS_TASK if whole else DAMSM_TASK,
    )


def read_captions_words(file: Path) -> CaptionWords:
    """The vocabulary of AttnGAN's captions.pickle: a list whose third entry maps ids to words, id 0 being `<end>`."""
    content = read_pickle(file)
    try:
        _train, _test, by_id, _ids = content
        end, *words = (str(by_id[i]) for i in range(len(by_id)))
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{file} is no captions.pickle of AttnGAN: it should hold two lists of captions, words by id, and ids by word "
            f"({error!r})."
        ) from error
    if end != "<end>":
        raise UserError(f"{file} is no captions.pickle of AttnGAN: its id 0 should be '<end>', not {end!r}.")
    return CaptionWords(tuple(words))


def convert_ort(file: Path, infos_file: Path, legacy_extra_skip: str | None) -> Weights:
    """Tensors under our names, with the vocabulary and the options that belong to them."""
    tensors = convert(_read_tensors(file))
    settings = settings_of(tensors)
    options, words = _read_infos(infos_file)
    if legacy_extra_skip is None:
        recorded = options.get("legacy_extra_skip")
        hint = "says nothing about it" if recorded is None else f"says {'on' if recorded else 'off'}"
        raise UserError(f"Say --legacy-extra-skip on or off. {SKIP_HELP} {infos_file.name} {hint}.")
    skip = legacy_extra_skip == "on"
    if options.get("legacy_extra_skip") not in (None, skip):
        log.warning("%s was trained with the extra skip %s, by its own options.", file, "off" if skip else "on")
    if settings["vocab_size"] != len(words):
        raise UserError(
            f"{file} has {settings['vocab_size']} ids and {infos_file} {len(words)} with END: they do not belong together."
        )
    settings |= {"legacy_extra_skip": skip, "max_words": int(options.get("seq_length", 16)), "alignment": "scaled_dot"}
    named = {f"net.{name}": tensor for name, tensor in tensors.items()}
    return Weights(file, named, settings, words.fingerprint, words.words, TASK)


def _read_tensors(file: Path) -> dict[str, Tensor]:
    try:
        found = torch.load(file, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise UserError(f"There is no file {file}.") from error
    except Exception as error:  # torch raises many kinds for files that are no checkpoints
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise UserError(f"{file} is no file of plain tensors, and nothing else is loaded: {first}") from error
    if not isinstance(found, dict) or not all(isinstance(value, Tensor) for value in found.values()):
        raise UserError(f"{file} holds no table of tensors by name.")
    return dict(found)


def _infos_beside(file: Path) -> Path:
    found = sorted(file.parent.glob("infos_*.pkl"))
    best = [path for path in found if path.stem.endswith("-best")] or found
    if len(best) != 1:
        listed = f": {', '.join(path.name for path in best)}" if best else ""
        raise UserError(f"There is not one infos_….pkl beside {file}{listed}. Name it with --infos FILE.")
    return best[0]


def _read_infos(file: Path) -> tuple[dict[str, Any], CaptionWords]:
    infos = read_pickle(file)
    try:
        vocabulary = infos["vocab"]
        words = CaptionWords(tuple(str(vocabulary[str(i)]) for i in range(1, len(vocabulary) + 1)))
        options = vars(infos["opt"])
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{file} is no infos file of the original code: it needs `opt` and `vocab` ({error!r})."
        ) from error
    return options, words


def _tell(out: Path, converted: Weights) -> None:
    words = len(converted.words or ())
    sys.stdout.write(
        f"{out}: {len(converted.tensors)} tensors, {words} words, extra skip "
        f"{'on' if converted.hyperparameters['legacy_extra_skip'] else 'off'}\n"
        f"lit-attn predict --from_weights {out} --data RegionFolder --data.root REGIONS\n"
    )
