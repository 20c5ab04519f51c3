"""Which detections do the noun phrases of captions name? `lit-attn prepare links`: links them, once, and draws a page of them."""

import argparse
import base64
import io
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

from PIL import Image

from lit_attn.cli.arguments import Parser
from lit_attn.cli.counting import counted
from lit_attn.data.caption_files import CaptionedPicture
from lit_attn.data.karpathy import KarpathyCaptions
from lit_attn.data.linking.named import LINKERS
from lit_attn.data.region_captions import RegionCaptioning
from lit_attn.data.regions import ATTRIBUTE_THRESHOLD
from lit_attn.data.tell_me_more import TellMeMore
from lit_attn.drawing.canvas import shape_of
from lit_attn.drawing.links import draw_links
from lit_attn.errors import UserError
from lit_attn.files import write_text
from lit_attn.language.phrases import Exclude, Kind
from lit_attn.report.markup import Markup, join, tag
from lit_attn.types import Annotation

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 1120px; padding: 0 1rem; color: #1c1c20; }
h2 { font-size: 1.05rem; margin: 2.2rem 0 .2rem; } p.caption { margin: .8rem 0 .5rem; font-size: 1.05rem; }
.links { display: flex; flex-wrap: wrap; gap: 14px; } figure { margin: 0; width: 340px; }
figure img { display: block; max-width: 100%; border-radius: 3px; } figcaption { margin-top: 3px; }
b { color: #b34106; } .note { color: #5f6269; }
"""


def _parser() -> argparse.ArgumentParser:
    links = Parser(
        prog="lit-attn prepare links",
        description="Links the noun phrases of captions to detections, once, and keeps the links beside the captions, where "
        "--data.link finds them. Linkers: " + "; ".join(f"{name}, {how}" for name, how in LINKERS.items()) + ".",
    )
    links.add_argument("captions", type=Path, help="JSON in Karpathy's or COCO's layout, or the folder of Tell-Me-More")
    links.add_argument(
        "--regions", type=Path, required=True, help="detections with labels: TSV, HDF5 or a folder of npz"
    )
    links.add_argument("--linker", default="lemma", help="a linker, perhaps with :FILE (default %(default)s)")
    links.add_argument("--pipeline", default="en_core_web_sm", help="a spaCy pipeline (default %(default)s)")
    links.add_argument(
        "--phrases", choices=get_args(Kind), default="nested", help="which phrases (default %(default)s)"
    )
    links.add_argument(
        "--exclude", choices=get_args(Exclude), default="exact", help="places that are left out (default %(default)s)"
    )
    links.add_argument("--object-names", type=Path, help="names of label ids, one per line")
    links.add_argument("--attribute-names", type=Path, help="names of attribute ids, one per line")
    links.add_argument(
        "--attribute-threshold",
        type=float,
        default=ATTRIBUTE_THRESHOLD,
        help="an attribute counts above this confidence (default %(default)s)",
    )
    links.add_argument("--split", help="only this split: train, restval, val or test")
    links.add_argument("--images", type=Path, help="the folder of the pictures, to draw on")
    links.add_argument("--page", type=Path, help="write a page that shows the links, too")
    links.add_argument("--pictures", type=int, default=50, help="so many pictures on the page (default %(default)s)")
    return links


def run(argv: list[str]) -> int:
    """Links, says how many, and draws."""
    try:
        given = _parser().parse_args(argv)
    except SystemExit as finished:  # --help
        return int(finished.code or 0)
    data = _data(given)
    pictures = [p for p in data.all_pictures if p.captions and given.split in (None, p.split)]
    if not pictures:
        has = ", ".join(sorted({picture.split for picture in data.all_pictures}))
        raise UserError(f"{given.captions} has no captions of the split {given.split!r}; it has {has}.")
    names = data.listed(given.split or "linking", pictures)
    found = data.annotations(pictures, names)
    phrases = [phrase for text in found.values() for phrase in text.phrases]
    linked = [len(phrase.objects) for phrase in phrases if phrase.objects]
    share = f" ({100 * len(linked) / len(phrases):.0f} %)" if phrases else ""
    each = f", each to {sum(linked) / len(linked):.1f} detections on average" if linked else ""
    told = f"{counted(len(found), 'caption')}, {counted(len(phrases), 'noun phrase')}"
    sys.stdout.write(f"{told}, {len(linked)} linked{share}{each}\n")
    if given.page is not None:
        some = list(zip(pictures, names, strict=True))[: given.pictures]
        write_text(given.page, _page(given.linker, data, some, found))
        sys.stdout.write(f"page: {given.page}\n")
    return 0


def _data(given: argparse.Namespace) -> KarpathyCaptions | TellMeMore:
    """The data set that training would read, so that links are those that probes find."""
    options: dict[str, Any] = {
        "regions": str(given.regions),
        "images": None if given.images is None else str(given.images),
        "object_names": None if given.object_names is None else str(given.object_names),
        "attribute_names": None if given.attribute_names is None else str(given.attribute_names),
        "annotate": given.pipeline,
        "link": given.linker,
        "phrases": given.phrases,
        "exclude": given.exclude,
        "attribute_threshold": given.attribute_threshold,
    }
    return (TellMeMore if given.captions.is_dir() else KarpathyCaptions)(str(given.captions), **options)


def _page(
    linker: str, data: RegionCaptioning, pictures: list[tuple[CaptionedPicture, str]], found: dict[str, Annotation]
) -> str:
    """One file that needs nothing else. All text in it is escaped."""
    head = join([tag("meta", charset="utf-8"), tag("title", "Links"), Markup(f"<style>{STYLE}</style>")])
    told = (
        f"Noun phrases of captions and the detections that the linker {linker!r} chose. Bright: the linked boxes, with what "
        "the detector calls them."
    )
    parts = [part for picture, name in pictures for part in _shown(data, picture, name, found)]
    body = tag("body", tag("h1", "What noun phrases name"), tag("p", told, class_="note"), *parts)
    return f"<!doctype html>\n{tag('html', tag('head', head), body, lang='en')}\n"


def _shown(
    data: RegionCaptioning, picture: CaptionedPicture, name: str, found: dict[str, Annotation]
) -> Iterator[object]:
    regions = data.source.read(picture, name)
    labels, boxes = data.source.described(regions), regions.relative_boxes
    image = None if data.images is None else data.images.open(picture.file)
    size = (regions.width, regions.height) if image is None else shape_of(image)
    yield tag("h2", picture.name, tag("span", "" if image else " (no picture file)", class_="note"))
    for i in range(len(picture.captions)):
        text = found[f"{picture.stem}-{i}"]
        yield tag("p", text.text, class_="caption")
        panels = []
        for phrase in text.phrases:
            said = " ".join(text.tokens[slice(*phrase.span)])
            drawn = tag(
                "img", src=_inline(draw_links(image, size, boxes, labels, phrase.objects)), alt=f"Boxes of {said}"
            )
            named = _counted(labels[region] for region in phrase.objects) or "no detection"
            panels.append(tag("figure", drawn, tag("figcaption", tag("b", said), f": {named}")))
        yield tag("div", *panels, class_="links") if panels else tag("p", "no noun phrase", class_="note")


def _counted(labels: Iterable[str]) -> str:
    return ", ".join(f"{label} ×{n}" if n > 1 else label for label, n in Counter(labels).items())


def _inline(panel: Image.Image) -> str:
    packed = io.BytesIO()
    panel.save(packed, "JPEG", quality=82)
    return f"data:image/jpeg;base64,{base64.b64encode(packed.getvalue()).decode()}"
