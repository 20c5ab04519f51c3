"""Does attention rank tokens as blank-out and gradients do? `lit-attn correlate`: tables by layer, and a figure.

MODEL is a name of the manifest, a run folder, a checkpoint, or `hf:FOLDER` with a classifier of the BERT family.
"""

import argparse
import sys
from pathlib import Path

from lit_attn.cli.arguments import Parser
from lit_attn.errors import UserError


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="lit-attn correlate", description=__doc__)
    parser.add_argument("model", help="name of the manifest, run folder, .ckpt or .safetensors, or hf:FOLDER")
    parser.add_argument(
        "--data", type=Path, help="folder of Linzen's or SST-2's files; a CSV with label and sentence for hf:"
    )
    parser.add_argument(
        "--samples", type=int, default=2000, help="sentences, drawn by a fixed seed (default %(default)s)"
    )
    parser.add_argument("--against", default="blank_out,gradient", help="comparisons (default %(default)s)")
    parser.add_argument(
        "--gradient", default="l2", choices=("l2", "l1", "sum_abs", "grad_x_input"), help="size of a gradient"
    )
    parser.add_argument("--ranks", default="average", choices=("average", "dense"), help="dense: as published")
    parser.add_argument(
        "--rows",
        default="target",
        choices=("target", "max"),
        help="max: over all rows, as in the released code of Table 3",
    )
    parser.add_argument("--kinds", default="natural", choices=("natural", "all"), help="of Linzen's sentences")
    parser.add_argument("--max-tokens", type=int, default=64, help="longer sentences are cut, for hf: alone")
    parser.add_argument("--processes", type=int, default=0, help="for flows; 0 stays in this one")
    parser.add_argument("--out", type=Path, required=True, help="folder to write into")
    return parser


def run(argv: list[str]) -> int:
    """`lit-attn correlate …`."""
    try:
        given = _parser().parse_args(argv)
    except SystemExit as finished:  # --help
        return int(finished.code or 0)
    for name, value, least in (("--samples", given.samples, 1), ("--processes", given.processes, 0)):
        if value < least:
            raise UserError(f"{name} must be at least {least}, got {value}.")
    if given.max_tokens < 3:
        raise UserError(f"--max-tokens must be at least 3, got {given.max_tokens}.")
    from lit_attn.attribution.correlations import correlate
    from lit_attn.cli.correlated_models import opened
    from lit_attn.cli.correlated_tables import write

    subject = opened(given)
    total = sum(len(batch.tokens) for batch in subject.batches)
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        sys.stderr.write(f"{done}/{total} sentences\n")

    found = correlate(
        subject.classifier,
        subject.batches,
        against=given.against.split(","),
        gradient=given.gradient,
        ranks=given.ranks,
        rows=given.rows,
        processes=given.processes,
        advance=advance,
    )
    # Table 3 was read with the largest value over all rows, Tables 1 and 2 at the classifier's own.
    published = subject.published if (given.rows == "max") == (subject.published == "sst2") else None
    sys.stdout.write(write(found, given.out, subject.title, published=published))
    return 0
