"""With what are things drawn? Colours, a brush in the coordinates of one thing's box, a texture for each material."""

from collections.abc import Sequence
from functools import cache
from random import Random

from PIL import Image, ImageChops, ImageDraw, ImageFont

Rgb = tuple[int, int, int]
Point = tuple[float, float]

PALETTE: dict[str, Rgb] = {
    "red": (208, 38, 42),
    "green": (52, 150, 62),
    "blue": (42, 88, 204),
    "yellow": (246, 206, 40),
    "purple": (128, 58, 172),
    "orange": (242, 132, 28),
    "pink": (246, 140, 184),
    "brown": (132, 84, 46),
    "black": (40, 40, 44),
    "white": (242, 242, 240),
    "gray": (142, 144, 148),
}
PAPER: Rgb = (250, 247, 238)
DARK: Rgb = (46, 44, 48)
STEEL: Rgb = (188, 192, 198)
SKY: Rgb = (176, 216, 244)
LEAF: Rgb = (62, 140, 66)
CLAY: Rgb = (186, 104, 70)


def shade(color: Rgb, amount: float) -> Rgb:
    """Towards white for positive amounts, towards black for negative ones; 0 changes nothing, ±1 reaches the end."""
    end = 255 if amount > 0 else 0
    share = abs(amount)
    return tuple(round(c + (end - c) * share) for c in color)  # type: ignore[return-value]


def brightness(color: Rgb) -> float:
    """Perceived lightness, 0 to 255."""
    return 0.3 * color[0] + 0.59 * color[1] + 0.11 * color[2]


class Brush:
    """Draws on the layer of one thing. Points are relative to its box: (0, 0) upper left, (1, 1) lower right."""

    def __init__(self, layer: Image.Image, color: str, pen: int, *, printed: bool = False) -> None:
        self.layer = layer
        self.printed = printed
        self.draw = ImageDraw.Draw(layer)
        self.width, self.height = layer.size
        self.pen = pen
        self.main = PALETTE[color]
        dark = color == "black"
        self.edge: Rgb = (108, 108, 116) if dark else shade(self.main, -0.5 if color != "white" else -0.42)
        self.deep: Rgb = (58, 58, 64) if dark else shade(self.main, -0.2 if color != "white" else -0.12)
        self.pale: Rgb = shade(self.main, 0.12 if dark else 0.28)

    @property
    def ink(self) -> Rgb:
        """For marks on the thing's own colour."""
        return DARK if brightness(self.main) > 125 else PAPER

    def _at(self, x: float, y: float) -> Point:
        return x * (self.width - 1), y * (self.height - 1)

    def rect(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        fill: Rgb | None = None,
        *,
        round_by: float = 0.0,
        edge: bool = True,
    ) -> None:
        """`round_by` is a share of the shorter side."""
        outline = self.edge if edge else None
        self._rounded((x1, y1, x2, y2), round_by, fill or self.main, outline, self.pen if edge else 1)

    def frame(self, x1: float, y1: float, x2: float, y2: float, ink: Rgb, *, round_by: float = 0.0) -> None:
        """The outline of a rectangle, with nothing inside."""
        self._rounded((x1, y1, x2, y2), round_by, None, ink, self.pen)

    def _rounded(
        self, place: tuple[float, float, float, float], round_by: float, fill: Rgb | None, outline: Rgb | None, pen: int
    ) -> None:
        x1, y1, x2, y2 = place
        box = (*self._at(x1, y1), *self._at(x2, y2))
        shorter = min(box[2] - box[0], box[3] - box[1])
        try:
            self.draw.rounded_rectangle(box, round_by * shorter, fill, outline, pen)
        except ValueError:  # Pillow's own rounding may leave less than nothing between two corners that nearly meet
            self.draw.rounded_rectangle(box, round_by * shorter / 2, fill, outline, pen)

    def oval(self, x1: float, y1: float, x2: float, y2: float, fill: Rgb | None = None, *, edge: bool = True) -> None:
        box = (*self._at(x1, y1), *self._at(x2, y2))
        self.draw.ellipse(box, fill or self.main, self.edge if edge else None, self.pen if edge else 1)

    def disc(self, x: float, y: float, radius: float, fill: Rgb | None = None, *, edge: bool = True) -> None:
        """A true circle; `radius` is a share of the layer's shorter side."""
        side = min(self.width, self.height)
        rx, ry = radius * side / self.width, radius * side / self.height
        self.oval(x - rx, y - ry, x + rx, y + ry, fill, edge=edge)

    def poly(self, points: Sequence[Point], fill: Rgb | None = None, *, edge: bool = True) -> None:
        corners = [self._at(*point) for point in points]
        self.draw.polygon(corners, fill or self.main)
        if edge:
            self.draw.line([*corners, corners[0], corners[1]], self.edge, self.pen, joint="curve")

    def line(self, points: Sequence[Point], fill: Rgb | None = None, width: float = 1.0) -> None:
        """`width` counts pen widths."""
        stroke = max(1, round(width * self.pen))
        self.draw.line([self._at(*point) for point in points], fill or self.edge, stroke, joint="curve")

    def arc(
        self, x1: float, y1: float, x2: float, y2: float, start: int, end: int, fill: Rgb, width: float = 1.0
    ) -> None:
        """Part of the outline of an ellipse; degrees, clockwise from the right."""
        box = (*self._at(x1, y1), *self._at(x2, y2))
        self.draw.arc(box, start, end, fill, max(1, round(width * self.pen)))

    def write(self, word: str, area: tuple[float, float, float, float], ink: Rgb, *, upright: bool = False) -> None:
        """The word as large as it fits into `area`; `upright` turns it to run from bottom to top."""
        (x1, y1), (x2, y2) = self._at(*area[:2]), self._at(*area[2:])
        wide, high = (y2 - y1, x2 - x1) if upright else (x2 - x1, y2 - y1)
        left, top, right, bottom = _font(100).getbbox(word)
        points = int(100 * min(wide / (right - left), high / (bottom - top)))
        font = _font(max(4, points))
        left, top, right, bottom = font.getbbox(word)
        mask = Image.new("L", (max(1, round(right - left)), max(1, round(bottom - top))))
        ImageDraw.Draw(mask).text((-left, -top), word, 255, font)
        if upright:
            mask = mask.transpose(Image.Transpose.ROTATE_90)
        corner = (round((x1 + x2 - mask.width) / 2), round((y1 + y2 - mask.height) / 2))
        self.layer.paste(ink, corner, mask)


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size=size)


def texture(layer: Image.Image, material: str | None) -> Image.Image:
    """The layer with a hint of its material; only what is drawn already is touched."""
    paint = _TEXTURES.get(material or "")
    if paint is None:
        return layer
    coat = Image.new("RGBA", layer.size)
    paint(ImageDraw.Draw(coat), *layer.size)
    alpha = layer.getchannel("A")
    coat.putalpha(ImageChops.multiply(coat.getchannel("A"), alpha))
    coated = Image.alpha_composite(layer, coat)
    if material == "glass":
        coated.putalpha(alpha.point(lambda value: value * 0.88))
    return coated


def _wood(draw: ImageDraw.ImageDraw, width: int, height: int) -> None:
    rng = Random(width)
    step = max(4, height // 14)
    for y in range(step // 2, height, step):
        bend = rng.randint(-step // 3, step // 3)
        draw.line([(0, y), (width // 3, y + bend), (2 * width // 3, y - bend), (width, y)], (40, 20, 0, 52), 2)


def _metal(draw: ImageDraw.ImageDraw, width: int, height: int) -> None:
    for start, share, alpha in ((0.12, 0.14, 70), (0.30, 0.04, 70), (0.74, 0.08, 50)):
        x, w = start * width, share * width
        draw.polygon(
            [(x + 0.1 * width, 0), (x + 0.1 * width + w, 0), (x + w, height), (x, height)], (255,) * 3 + (alpha,)
        )


def _glass(draw: ImageDraw.ImageDraw, width: int, height: int) -> None:
    draw.polygon(
        [(0.2 * width, 0), (0.42 * width, 0), (0.22 * width, height), (0.02 * width, height)], (255, 255, 255, 76)
    )
    draw.polygon(
        [(0.7 * width, 0), (0.76 * width, 0), (0.6 * width, height), (0.54 * width, height)], (255,) * 3 + (60,)
    )


def _leather(draw: ImageDraw.ImageDraw, width: int, height: int) -> None:
    step = max(6, width // 40)
    for y in (round(0.3 * height), round(0.66 * height)):
        for x in range(0, width, 2 * step):
            draw.line([(x, y), (x + step, y)], (255, 255, 255, 110), 2)
    draw.ellipse((0.1 * width, 0.05 * height, 0.5 * width, 0.25 * height), (255, 255, 255, 40))


def _fabric(draw: ImageDraw.ImageDraw, width: int, height: int) -> None:
    step = max(5, min(width, height) // 16)
    for x in range(-height, width, step):
        draw.line([(x, 0), (x + height, height)], (0, 0, 0, 20), 1)
        draw.line([(x + height, 0), (x, height)], (255, 255, 255, 26), 1)


def _ceramic(draw: ImageDraw.ImageDraw, width: int, height: int) -> None:
    draw.ellipse((0.18 * width, 0.3 * height, 0.32 * width, 0.62 * height), (255, 255, 255, 120))


def _plastic(draw: ImageDraw.ImageDraw, width: int, height: int) -> None:
    draw.rectangle((0.16 * width, 0, 0.22 * width, height), (255, 255, 255, 64))


def _paper(draw: ImageDraw.ImageDraw, width: int, height: int) -> None:
    draw.line([(0.5 * width, 0), (0.5 * width, height)], (0, 0, 0, 24), 2)


def _stone(draw: ImageDraw.ImageDraw, width: int, height: int) -> None:
    rng = Random(7)
    grain = max(1, min(width, height) // 60)
    for _ in range(120):
        x, y = rng.random() * width, rng.random() * height
        draw.ellipse((x, y, x + grain, y + grain), (0, 0, 0, 90) if rng.random() < 0.5 else (255, 255, 255, 90))


_TEXTURES = {
    "wooden": _wood,
    "metal": _metal,
    "glass": _glass,
    "leather": _leather,
    "fabric": _fabric,
    "ceramic": _ceramic,
    "plastic": _plastic,
    "paper": _paper,
    "stone": _stone,
}
