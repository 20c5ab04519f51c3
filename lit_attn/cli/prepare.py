"""What must be made of public files before others can use them? Label files of captions, in the public layout. No torch."""

import argparse
import sys
from pathlib import Path

from lit_attn.cli.arguments import Parser
from lit_attn.data.caption_files import read_captions
from lit_attn.data.labels import MAX_WORDS, MIN_COUNT, build_words, prepare_labels, write_labels
from lit_attn.errors import UserError


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="lit-attn prepare", description="Prepare public files.")
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="labels")
    labels = kinds.add_parser(
        "labels",
        help="captions as ids: cocotalk.json and cocotalk_label.h5",
        description="Writes cocotalk.json and cocotalk_label.h5 for the captions of a data set.",
    )
    labels.add_argument("captions", type=Path, help="JSON in Karpathy's or COCO's layout")
    labels.add_argument("--out", type=Path, required=True, help="folder to write into")
    labels.add_argument("--min-count", type=int, default=MIN_COUNT, help="rarer words become UNK (default %(default)s)")
    labels.add_argument("--max-words", type=int, default=MAX_WORDS, help="captions are cut there (default %(default)s)")
    return parser


def run(argv: list[str]) -> int:
    """`lit-attn prepare …`."""
    try:
        given = _parser().parse_args(argv)
    except SystemExit as finished:  # --help
        return int(finished.code or 0)
    for name, value in (("--min-count", given.min_count), ("--max-words", given.max_words)):
        if value < 1:
            raise UserError(f"{name} must be at least 1, got {value}.")
    pictures = read_captions(given.captions)
    labels = prepare_labels(pictures, build_words(pictures, given.min_count), given.max_words)
    write_labels(labels, pictures, given.out)
    sys.stdout.write(
        f"{given.out}: {len(labels)} pictures, {len(labels.labels)} captions, {len(labels.words.words)} words\n"
    )
    return 0
