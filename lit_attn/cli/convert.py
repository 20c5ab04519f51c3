"""How do published weights become ours? `lit-attn convert ort FILE`, without running anything that a file contains."""

import logging
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lit_attn.checkpoint import Weights, write_weights
from lit_attn.cli.arguments import Parser
from lit_attn.errors import UserError, did_you_mean
from lit_attn.models.captioner_weights import convert, settings_of
from lit_attn.unpickle import read_pickle
from lit_attn.vocabulary import CaptionWords

log = logging.getLogger("lit_attn")

TASK = "lit_attn.tasks.captioning.Captioning"
FAMILIES = ("ort",)
SKIP_HELP = (
    "Nothing in the weights tells whether the network was trained with the extra skip, and with the wrong choice its "
    "captions are silently worse. The released self-critical model (log_relation_transformer_bu_rl) needs `on`, the "
    "cross-entropy models `off`."
)


def run(argv: list[str]) -> int:
    if not argv or argv[0] not in FAMILIES:
        if argv and argv[0] not in ("-h", "--help"):
            raise UserError(
                f"Unknown family {argv[0]!r}.{did_you_mean(argv[0], FAMILIES)} Known: {', '.join(FAMILIES)}."
            )
        sys.stdout.write("usage: lit-attn convert ort FILE --legacy-extra-skip on|off [--infos FILE] [--out FILE]\n")
        return 0
    parser = Parser(
        prog="lit-attn convert ort",
        description="The released object-relation transformer as a safetensors file of ours.",
    )
    parser.add_argument("file", type=Path, help="model-best.pth, as the original code saved it")
    parser.add_argument("--infos", type=Path, help="infos_….pkl with options and vocabulary (default: beside the file)")
    parser.add_argument("--legacy-extra-skip", choices=("on", "off"), help=SKIP_HELP)
    parser.add_argument("--out", type=Path, help="where to write (default: FILE with .safetensors)")
    given = parser.parse_args(argv[1:])
    out = given.out or given.file.with_suffix(".safetensors")
    converted = convert_ort(given.file, given.infos or _infos_beside(given.file), given.legacy_extra_skip)
    write_weights(converted, out)
    _tell(out, converted)
    return 0


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
