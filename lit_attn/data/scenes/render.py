"""What does a scene look like? Wall and floor, then its things from the farthest to the nearest, with their shadows."""

from PIL import Image, ImageDraw, ImageFilter

from .brush import Brush, Rgb, shade, texture
from .drawings import DRAWINGS, WORD_AREAS
from .rooms import make_scene, paint_order
from .world import HORIZON, KINDS, Box, Scene, Thing

_WALLS: dict[str, Rgb] = {
    "bedroom": (222, 214, 228),
    "kitchen": (244, 232, 200),
    "living room": (222, 226, 208),
    "office": (212, 220, 226),
    "bathroom": (206, 228, 232),
    "dining room": (238, 216, 202),
    "classroom": (226, 230, 200),
    "hallway": (232, 224, 212),
}
_FLOORS: dict[str, Rgb] = {
    "bedroom": (206, 184, 160),
    "kitchen": (214, 208, 198),
    "living room": (204, 176, 142),
    "office": (176, 184, 190),
    "bathroom": (190, 204, 210),
    "dining room": (198, 168, 138),
    "classroom": (208, 190, 150),
    "hallway": (186, 172, 160),
}
_TILED = frozenset({"kitchen", "bathroom", "hallway"})


def render(scene: Scene, size: int = 256) -> Image.Image:
    """The scene as a square RGB picture of `size` pixels a side."""
    if size < 1:
        raise ValueError(f"A picture needs at least one pixel a side, but size is {size}. Ask for 64 or more.")
    side = size * _supersampling(size)
    canvas = _room(scene.room, side)
    for index in paint_order(scene.things):
        _paint(canvas, scene.things[index])
    return canvas.convert("RGB").resize((size, size), Image.Resampling.LANCZOS)


def draw_thing(thing: Thing, width: int, height: int, pen: int) -> Image.Image:
    """The thing alone, on a transparent layer that its box fills."""
    layer = Image.new("RGBA", (max(2, width), max(2, height)))
    brush = Brush(layer, thing.color, pen, printed=thing.word is not None)
    DRAWINGS[thing.kind](brush)
    layer = texture(layer, thing.material)
    if thing.word is not None:
        word = Brush(layer, thing.color, pen)
        word.write(thing.word, WORD_AREAS[thing.kind], word.ink, upright=thing.kind == "bottle")
    return layer


def contact_sheet(size: int = 120) -> Image.Image:
    """Every kind once, `size` pixels a side, with its name."""
    columns = 6
    label = max(12, size // 8)
    rows = -(-len(KINDS) // columns)
    sheet = Image.new("RGB", (columns * size, rows * (size + label)), (232, 230, 224))
    draw = ImageDraw.Draw(sheet)
    for number, kind in enumerate(KINDS.values()):
        row, column = divmod(number, columns)
        color = kind.colors[number % len(kind.colors)]
        material = kind.materials[number % len(kind.materials)] if kind.materials else None
        scale = 0.86 * size / max(kind.width, kind.height)
        width, height = round(kind.width * scale), round(kind.height * scale)
        thing = Thing(
            kind.name, color, "large", material, (0.0, 0.0, 1.0, 1.0), 1.0, word="tea" if kind.printed else None
        )
        drawn = draw_thing(thing, 4 * width, 4 * height, max(1, size // 20))
        drawn = drawn.resize((width, height), Image.Resampling.LANCZOS)
        corner = (column * size + (size - width) // 2, row * (size + label) + (size - height) // 2)
        sheet.paste(drawn, corner, drawn)
        middle = (column * size + size // 2, row * (size + label) + size)
        draw.text(middle, kind.name, (30, 30, 34), anchor="ma", font_size=round(0.8 * label))
    return sheet


def scene_sheet(seed: int, count: int, size: int) -> Image.Image:
    """The first `count` scenes of the split `train`, three in a row."""
    columns = min(3, count)
    sheet = Image.new("RGB", (columns * size, -(-count // columns) * size), (255, 255, 255))
    for index in range(count):
        row, column = divmod(index, columns)
        sheet.paste(render(make_scene(seed, "train", index), size), (column * size, row * size))
    return sheet


def _supersampling(size: int) -> int:
    return 4 if size <= 192 else 3 if size <= 384 else 2


def _room(room: str, side: int) -> Image.Image:
    wall, floor = _WALLS[room], _FLOORS[room]
    canvas = Image.new("RGBA", (side, side), (*wall, 255))
    draw = ImageDraw.Draw(canvas)
    line = round(HORIZON * side)
    pen = max(1, side // 300)
    for stripe in range(0, side, max(2, side // 12)):
        draw.line([(stripe, 0), (stripe, line)], shade(wall, 0.35), pen)
    draw.rectangle((0, line, side, side), floor)
    seam = shade(floor, -0.08)
    for step in range(-12, 13):
        draw.line([(side * (0.5 + step * 0.06), line), (side * (0.5 + step * 0.14), side)], seam, pen)
    rows = (0.06, 0.15, 0.27, 0.42, 0.6, 0.82) if room in _TILED else ()
    for share in rows:
        y = line + share * (side - line)
        draw.line([(0, y), (side, y)], seam, pen)
    draw.rectangle((0, line - 0.022 * side, side, line), shade(wall, 0.6), shade(wall, -0.3), pen)
    return canvas


def _paint(canvas: Image.Image, thing: Thing) -> None:
    side = canvas.width
    left, top, right, bottom = (round(edge * side) for edge in thing.box)
    _shadow(canvas, thing)
    drawn = draw_thing(thing, right - left, bottom - top, max(1, round(side / 320)))
    canvas.alpha_composite(drawn, (left, top))


def _shadow(canvas: Image.Image, thing: Thing) -> None:
    """A soft dark patch: below what stands, beside what hangs."""
    side = canvas.width
    left, top, right, bottom = (edge * side for edge in thing.box)
    width, height = right - left, bottom - top
    spot: Box
    if thing.on_wall:
        shift = 0.008 * side
        spot = (left + shift, top + 1.5 * shift, right + shift, bottom + 1.5 * shift)
        alpha = 60
    else:
        half = min(0.025 * side, 0.08 * width + 0.02 * height + 2)
        spot = (left - 0.01 * width, bottom - half, right + 0.01 * width, bottom + 0.7 * half)
        alpha = 110
    blur = max(1.0, 0.006 * side)
    pad = int(3 * blur)
    x, y = int(spot[0]) - pad, int(spot[1]) - pad
    patch = Image.new("L", (int(spot[2]) + pad - x, int(spot[3]) + pad - y))
    area = (spot[0] - x, spot[1] - y, spot[2] - x, spot[3] - y)
    pencil = ImageDraw.Draw(patch)
    if thing.on_wall and thing.kind not in ("clock", "mirror"):
        pencil.rectangle(area, alpha)
    else:
        pencil.ellipse(area, alpha)
    patch = patch.filter(ImageFilter.GaussianBlur(blur))
    canvas.paste((30, 24, 20, 255), (x, y), patch)
