"""What does `lit-attn extract` take from the user's own pictures? Regions, grids of features, or printed words."""

import sys

from lit_attn.errors import UserError, did_you_mean

KINDS = {"regions": "FOLDER", "grid": "FILE.h5", "ocr": "FOLDER"}
"""What can be extracted, and where it is written."""
USAGE = "Usage: " + "; ".join(f"lit-attn extract {kind} IMAGES... --out {out} [options]" for kind, out in KINDS.items())


def run(argv: list[str]) -> int:
    """Returns the exit code: 0 when there is something of at least one picture, now or from before, else 2."""
    if not argv:
        raise UserError(f"Extract what? Known: {', '.join(KINDS)}. {USAGE}.")
    if argv[0] in ("-h", "--help"):
        sys.stdout.write(f"{USAGE}. lit-attn extract {'|'.join(KINDS)} --help lists the options.\n")
        return 0
    if argv[0] not in KINDS:
        known = f"{did_you_mean(argv[0], KINDS)} Known: {', '.join(KINDS)}."
        raise UserError(f"Cannot extract {argv[0]!r}.{known} {USAGE}.")
    if argv[0] == "regions":
        from lit_attn.cli.extract_regions import run as extract
    elif argv[0] == "grid":
        from lit_attn.cli.extract_grid import run as extract
    else:
        from lit_attn.cli.extract_ocr import run as extract
    return extract(argv[1:])
