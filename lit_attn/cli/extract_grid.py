"""What does `lit-attn extract grid` understand? Its options, and what they mean for the backbone.

Arguments are read, and most mistakes found, before torch is imported.
"""

import argparse
from pathlib import Path

from lit_attn.cli.arguments import Parser
from lit_attn.cli.extract_progress import follow, say
from lit_attn.errors import UserError


def run(argv: list[str]) -> int:
    """Returns the exit code: 0 when there are grids of at least one picture, now or from before, else 2."""
    options = _parser().parse_args(argv)
    if options.batch < 1:
        raise UserError(f"--batch is at least 1 picture, got {options.batch}.")
    if options.out.suffix not in (".h5", ".hdf5"):
        raise UserError(f"--out is a file that ends in .h5 or .hdf5, got {options.out}.")

    from lit_attn.extract.pictures import find_pictures

    sources = find_pictures(options.images)

    from lit_attn.extract.backbone import Backbone
    from lit_attn.extract.detector import choose_device
    from lit_attn.extract.grid import claim, extract

    device = choose_device(options.device)
    backbone = Backbone(options.backbone, options.weights, options.stage, options.size, options.blue_std, device)
    if options.weights == "random":
        say("The weights are random: these are features of an untrained network, to try things out.")
    claim(options.out, sources, backbone.shape, backbone.settings, options.half)
    channels, rows, columns = backbone.shape
    say(f"Grids of {channels} channels on {rows} x {columns} cells, of pictures resized to {options.size} pixels.")
    return follow(extract(sources, backbone, options.out, options.batch), len(sources), "grids", options.out)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="lit-attn extract grid",
        description="Describe the parts of pictures with a stage of an image classifier of timm. Writes one HDF5 file: "
        "features [pictures, channels, rows, columns] and the pictures' names. A run that was stopped goes on when it is "
        "started again.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "images", nargs="+", type=Path, metavar="IMAGES", help="pictures, or folders of them (recursive)"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.h5", help="the file to write")
    parser.add_argument(
        "--backbone", default="resnet101.tv_in1k", metavar="NAME", help="a model of timm (default: %(default)s)"
    )
    parser.add_argument(
        "--stage",
        type=int,
        default=3,
        metavar="N",
        help="which of its feature maps, counted as timm does: of a ResNet, 0 is the stem (default: %(default)s)",
    )
    parser.add_argument(
        "--weights",
        default="default",
        metavar="FILE",
        help="a .pth or .safetensors file; default: those that timm publishes; random: an untrained network, "
        "to try things out (default: %(default)s)",
    )
    parser.add_argument(
        "--size",
        type=int,
        default=224,
        metavar="PIXELS",
        help="pictures are resized to a square of this side (default: %(default)s)",
    )
    parser.add_argument(
        "--blue-std",
        type=float,
        metavar="S",
        help="divide blue by S; 0.224 is what the published CLEVR features used (default: as the backbone was trained, "
        "0.225 for most)",
    )
    parser.add_argument("--half", action="store_true", help="write float16")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, mps (default: %(default)s)")
    parser.add_argument(
        "--batch", type=int, default=16, metavar="N", help="pictures that are computed together (default: %(default)s)"
    )
    return parser
