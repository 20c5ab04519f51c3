"""What does `lit-attn extract regions` understand? Its options, and what they mean for the detector.

Arguments are read, and most mistakes found, before torch is imported.
"""

import argparse
from pathlib import Path

from lit_attn.cli.arguments import Parser
from lit_attn.cli.extract_progress import follow, say
from lit_attn.errors import UserError


def run(argv: list[str]) -> int:
    """Returns the exit code: 0 when there are regions of at least one picture, now or from before, else 2."""
    options = _parser().parse_args(argv)
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
        say("The weights are random: these are features of an untrained network, to try things out.")
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
    return follow(outcomes, len(sources), "regions", options.out)


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
