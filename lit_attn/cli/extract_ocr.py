"""What does `lit-attn extract ocr` understand? Its options.

Arguments are read, and most mistakes found, before the reader is imported.
"""

import argparse
from pathlib import Path

from lit_attn.cli.arguments import Parser
from lit_attn.cli.extract_progress import follow


def run(argv: list[str]) -> int:
    """Returns the exit code: 0 when at least one picture was read, now or before, else 2."""
    options = _parser().parse_args(argv)

    from lit_attn.extract.pictures import find_pictures

    sources = find_pictures(options.images)

    from lit_attn.extract.ocr import TOKENS, Reader, claim, extract

    reader = Reader(options.threshold)
    claim(options.out, reader.settings)
    return follow(extract(sources, reader, options.out), len(sources), "tokens", options.out / TOKENS)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="lit-attn extract ocr",
        description="Read the words that are printed in pictures, with RapidOCR. Writes FOLDER/ocr.jsonl, a line per "
        "picture; a run that was stopped goes on when it is started again.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "images", nargs="+", type=Path, metavar="IMAGES", help="pictures, or folders of them (recursive)"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where to write FOLDER/ocr.jsonl")
    parser.add_argument(
        "--threshold",
        type=float,
        default=0.5,
        metavar="P",
        help="lines of text below this confidence are left out (default: %(default)s)",
    )
    return parser
