"""What does `lit-attn extract` take from the user's own pictures? Regions, so far.

Arguments are read, and most mistakes found, before torch is imported.
"""

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from lit_attn.cli.arguments import Parser
from lit_attn.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from lit_attn.extract.regions import Outcome

KINDS = ("regions",)
USAGE = "Usage: lit-attn extract regions IMAGES... --out FOLDER [options]; lit-attn extract regions --help lists them."
SECONDS_BETWEEN_LINES = 15.0
LISTED = 20
"""At most so many skipped pictures are listed."""


def run(argv: list[str]) -> int:
    """Returns the exit code: 0 when there are regions of at least one picture, now or from before, else 2."""
    if not argv:
        raise UserError(f"Extract what? Known: {', '.join(KINDS)}. {USAGE}")
    if argv[0] in ("-h", "--help"):
        sys.stdout.write(f"{USAGE}\n")
        return 0
    if argv[0] not in KINDS:
        raise UserError(f"Cannot extract {argv[0]!r}.{did_you_mean(argv[0], KINDS)} Known: {', '.join(KINDS)}. {USAGE}")
    return _regions(_parser().parse_args(argv[1:]))


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="lit-attn extract regions",
        description="Find regions in pictures with a torchvision detector: boxes, labels, features of the box head and, "
        "as attributes, the colour that most of a box has. Writes one npz file per picture; a run that was stopped goes "
        "on when it is started again.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "images", nargs="+", type=Path, metavar="IMAGES", help="pictures, or folders of them (recursive)"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where to write FOLDER/<name>.npz")
    parser.add_argument(
        "--detector",
        default="fasterrcnn_resnet50_fpn",
        metavar="NAME",
        help="a torchvision detector with RoI heads: fasterrcnn_..., maskrcnn_..., keypointrcnn_... (default: %(default)s)",
    )
    parser.add_argument(
        "--weights",
        default="default",
        metavar="FILE",
        help="a .pth or .safetensors file; default: those that torchvision publishes; random: an untrained network, "
        "to try things out (default: %(default)s)",
    )
    parser.add_argument(
        "--classes", type=Path, metavar="FILE", help="class names, one per line, without the background"
    )
    count = parser.add_argument_group("how many regions")
    count.add_argument("--regions", type=int, metavar="N", help="exactly N of each picture (default: 36)")
    count.add_argument("--min-regions", type=int, metavar="N", help="at least N, ... (default: 10 with --max-regions)")
    count.add_argument("--max-regions", type=int, metavar="N", help="... at most N (default: 100 with --min-regions)")
    count.add_argument(
        "--threshold",
        type=float,
        default=0.2,
        metavar="P",
        help="detections below this confidence only fill up to the minimum (default: %(default)s)",
    )
    parser.add_argument(
        "--size",
        type=int,
        metavar="PIXELS",
        help="shorter side of the picture as the detector sees it (default: its own)",
    )
    parser.add_argument("--half", action="store_true", help="write features as float16")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps (default: %(default)s)")
    parser.add_argument("--overwrite", action="store_true", help="make files again that are there")
    return parser


def region_limits(regions: int | None, least: int | None, most: int | None) -> tuple[int, int]:
    """Minimum and maximum number of regions from the three flags."""
    if regions is not None and (least is not None or most is not None):
        raise UserError("--regions N means exactly N; leave it out to give --min-regions and --max-regions.")
    if least is None and most is None:
        return (36, 36) if regions is None else (regions, regions)
    return (10 if least is None else least), (100 if most is None else most)


def _regions(options: argparse.Namespace) -> int:
    least, most = region_limits(options.regions, options.min_regions, options.max_regions)

    from lit_attn.extract.pictures import find_pictures

    sources = find_pictures(options.images)

    from lit_attn.extract.detector import Detector, Selection, choose_device
    from lit_attn.extract.regions import claim, extract
    from lit_attn.extract.weights import load_network

    selection = Selection(least, most, options.threshold)
    device = choose_device(options.device)
    network = load_network(options.detector, options.weights, options.classes)
    detector = Detector(network, selection, options.size, device)
    if options.weights == "random":
        _say("The weights are random: these are features of an untrained network, to try things out.")
    claim(
        options.out,
        {
            "detector": options.detector,
            "weights": network.weights,
            "classes": network.classes,
            "size": detector.size,
            "min_regions": selection.min_regions,
            "max_regions": selection.max_regions,
            "threshold": selection.threshold,
            "half": options.half,
        },
    )
    outcomes = extract(sources, detector, options.out, options.half, options.overwrite)
    try:
        return _summarise(list(_shown(outcomes, len(sources))), options.out)
    except KeyboardInterrupt:
        _say("Interrupted. The same command goes on where it stopped.")
        raise


def _shown(outcomes: Iterable["Outcome"], total: int) -> Iterator["Outcome"]:
    """The same outcomes, with a progress bar on a terminal and a line now and then in a log."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(highlight=False, soft_wrap=True)
    if console.is_terminal:
        columns = (TextColumn("pictures"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console) as progress:
            yield from progress.track(outcomes, total)
        return
    begun = last = time.monotonic()
    for done, outcome in enumerate(outcomes, 1):
        if time.monotonic() - last > SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            _say(f"[{last - begun:6.0f} s] {done}/{total} pictures")
        yield outcome


def _summarise(outcomes: list["Outcome"], folder: Path) -> int:
    from lit_attn.extract.regions import Result

    made, kept, skipped = ([o for o in outcomes if o.result is result] for result in Result)
    there = f", {len(kept)} were there already" if kept else ""
    _say(f"regions: {folder} has those of {len(made) + len(kept)} pictures{there}")
    if skipped:
        _say(f"Skipped {len(skipped)}:")
        for outcome in skipped[:LISTED]:
            _say(f"  {outcome.source.path}: {outcome.reason}")
        if len(skipped) > LISTED:
            _say(f"  and {len(skipped) - LISTED} more")
    return 0 if made or kept else 2


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
