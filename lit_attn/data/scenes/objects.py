"""How is each small thing and each animal drawn?"""

from math import cos, pi, sin

from .brush import CLAY, DARK, LEAF, PALETTE, PAPER, STEEL, Brush, Rgb, brightness, shade


def plant(b: Brush) -> None:
    """Leaves in its colour if that is green, otherwise flowers in its colour."""
    if b.main == PALETTE["green"]:
        for x, y, wide in ((0.1, 0.3, 0.1), (0.9, 0.3, 0.1), (0.26, 0.12, 0.13), (0.74, 0.12, 0.13), (0.5, 0.0, 0.14)):
            middle = ((x + 0.5) / 2, (y + 0.72) / 2)
            b.poly(((0.46, 0.74), (middle[0] - wide, middle[1] + 0.02), (x, y), (middle[0] + wide, middle[1] - 0.02), (0.54, 0.74)))  # fmt: skip  # noqa: E501
            b.line(((0.5, 0.72), middle, (x, y)), b.pale)
        for x in (0.02, 0.98):
            b.poly(((0.46, 0.74), ((x + 0.5) / 2, 0.5), (x, 0.56), ((x + 0.5) / 2, 0.66)), b.pale)
    else:
        for x in (0.25, 0.5, 0.75):
            b.line(((0.5, 0.74), (x, 0.3)), shade(LEAF, -0.3), 2.0)
            b.oval(x - 0.2, 0.56, x + 0.2, 0.68, LEAF)
        for x, y in ((0.5, 0.13), (0.25, 0.26), (0.75, 0.26), (0.25, 0.48), (0.75, 0.48), (0.5, 0.38)):
            for turn in range(6):
                angle = turn * pi / 3
                b.disc(x + 0.12 * cos(angle), y + 0.06 * sin(angle), 0.12, b.main)
            b.disc(x, y, 0.08, (250, 220, 90) if brightness(b.main) < 170 else (150, 90, 40))
    b.poly(((0.26, 0.74), (0.74, 0.74), (0.66, 1.0), (0.34, 1.0)), CLAY)
    b.rect(0.22, 0.69, 0.78, 0.77, shade(CLAY, 0.12))


def lamp(b: Brush) -> None:
    b.rect(0.45, 0.5, 0.55, 0.92, b.deep)
    b.disc(0.5, 0.72, 0.14)
    b.rect(0.2, 0.91, 0.8, 1.0, b.deep, round_by=0.5)
    b.oval(0.38, 0.44, 0.62, 0.58, (255, 244, 180))
    b.poly(((0.28, 0.0), (0.72, 0.0), (1.0, 0.5), (0.0, 0.5)))
    b.poly(((0.36, 0.02), (0.5, 0.02), (0.42, 0.48), (0.16, 0.48)), b.pale, edge=False)
    b.line(((0.03, 0.45), (0.97, 0.45)), b.edge, 2.0)


def television(b: Brush) -> None:
    b.line(((0.3, 0.01), (0.5, 0.2), (0.7, 0.01)), b.edge, 2.0)
    b.rect(0.4, 0.9, 0.6, 0.96, b.deep)
    b.rect(0.26, 0.93, 0.74, 1.0)
    b.rect(0.0, 0.15, 1.0, 0.92, round_by=0.12)
    screen = (70, 82, 96)
    b.rect(0.11, 0.25, 0.89, 0.77, screen, round_by=0.1)
    b.poly(
        ((0.12, 0.76), (0.12, 0.66), (0.32, 0.5), (0.52, 0.68), (0.66, 0.58), (0.88, 0.7), (0.88, 0.76)), (50, 70, 64)
    )
    b.disc(0.74, 0.37, 0.07, (230, 220, 180), edge=False)
    b.poly(((0.2, 0.27), (0.29, 0.27), (0.17, 0.52), (0.14, 0.52)), shade(screen, 0.4), edge=False)
    b.disc(0.9, 0.845, 0.035, (220, 60, 60))
    b.line(((0.4, 0.845), (0.6, 0.845)))


def laptop(b: Brush) -> None:
    b.rect(0.1, 0.0, 0.9, 0.66, round_by=0.1)
    b.rect(0.21, 0.11, 0.79, 0.52, (84, 112, 146))
    for y, end in ((0.2, 0.6), (0.3, 0.7), (0.4, 0.5)):
        b.line(((0.28, y), (end, y)), PAPER, 1.2)
    b.poly(((0.1, 0.66), (0.9, 0.66), (1.0, 0.93), (0.0, 0.93)))
    for row in range(3):
        y, inset = 0.695 + 0.055 * row, 0.16 - 0.03 * row
        step = (1 - 2 * inset) / 9
        for key in range(9):
            left = inset + key * step
            b.rect(left + 0.12 * step, y, left + 0.8 * step, y + 0.035, b.edge, edge=False)
    b.rect(0.4, 0.86, 0.6, 0.92, b.pale, edge=False)
    b.rect(0.0, 0.92, 1.0, 1.0, b.deep, round_by=0.4)


def book(b: Brush) -> None:
    b.poly(((0.06, 0.06), (0.97, 0.12), (1.0, 1.0), (0.08, 1.0)), b.deep)
    b.poly(((0.08, 0.8), (0.92, 0.8), (0.97, 0.95), (0.1, 0.95)), PAPER)
    b.poly(((0.88, 0.06), (0.96, 0.14), (0.97, 0.95), (0.88, 0.84)), PAPER)
    b.line(((0.1, 0.9), (0.94, 0.9)), (180, 176, 164))
    b.rect(0.0, 0.0, 0.9, 0.84, round_by=0.08)
    b.rect(0.0, 0.0, 0.13, 0.84, b.deep, round_by=0.3)
    b.line(((0.2, 0.1), (0.84, 0.1)), b.pale)
    b.line(((0.2, 0.74), (0.84, 0.74)), b.pale)
    if not b.printed:
        b.rect(0.3, 0.2, 0.74, 0.36, b.pale)
        b.poly(((0.52, 0.44), (0.62, 0.54), (0.52, 0.66), (0.42, 0.54)), b.pale)


def cup(b: Brush) -> None:
    b.arc(0.6, 0.26, 1.0, 0.78, -90, 90, b.edge, 5.5)
    b.arc(0.62, 0.28, 0.98, 0.76, -90, 90, b.main, 3.5)
    b.rect(0.0, 0.3, 0.8, 1.0, round_by=0.22)
    b.rect(0.0, 0.1, 0.8, 0.7, edge=False)
    b.line(((0.005, 0.1), (0.005, 0.82)))
    b.line(((0.795, 0.1), (0.795, 0.82)))
    b.oval(0.0, 0.0, 0.8, 0.22, b.pale)
    b.oval(0.08, 0.05, 0.72, 0.19, (92, 58, 38), edge=False)


def bowl(b: Brush) -> None:
    b.rect(0.3, 0.84, 0.7, 1.0, b.deep)
    b.poly(
        [(0.0, 0.2)]
        + [(0.5 - 0.5 * cos(step * pi / 12), 0.2 + 0.72 * sin(step * pi / 12)) for step in range(1, 12)]
        + [(1.0, 0.2)]
    )
    b.oval(0.0, 0.0, 1.0, 0.42, b.pale)
    b.oval(0.07, 0.07, 0.93, 0.36, b.deep, edge=False)


def bottle(b: Brush) -> None:
    b.poly(((0.36, 0.1), (0.64, 0.1), (0.66, 0.28), (1.0, 0.44), (1.0, 0.97), (0.94, 1.0), (0.06, 1.0), (0.0, 0.97), (0.0, 0.44), (0.34, 0.28)))  # fmt: skip  # noqa: E501
    b.rect(0.32, 0.0, 0.68, 0.1, DARK)
    b.line(((0.36, 0.16), (0.64, 0.16)))
    for y in (0.5, 0.9):
        b.line(((0.02, y), (0.98, y)), b.pale, 1.6)
    if not b.printed:
        b.disc(0.5, 0.7, 0.28, b.pale)


def vase(b: Brush) -> None:
    b.arc(0.02, 0.14, 0.5, 0.5, 90, 270, b.edge, 2.5)
    b.arc(0.5, 0.14, 0.98, 0.5, -90, 90, b.edge, 2.5)
    right = ((0.66, 0.1), (0.62, 0.26), (0.84, 0.4), (0.98, 0.58), (0.88, 0.78), (0.68, 0.93), (0.72, 1.0))
    b.poly((*right, *((1 - x, y) for x, y in reversed(right))))
    b.oval(0.22, 0.03, 0.78, 0.14, b.deep)
    zigzag = [(0.06 + 0.11 * step, 0.55 + 0.07 * (step % 2)) for step in range(9)]
    b.line(zigzag, b.ink, 1.6)
    b.line(((0.07, 0.5), (0.93, 0.5)), b.ink)
    b.line(((0.06, 0.67), (0.94, 0.67)), b.ink)


def candle(b: Brush) -> None:
    b.rect(0.14, 0.3, 0.86, 0.9)
    b.poly(((0.14, 0.31), (0.34, 0.33), (0.34, 0.38), (0.3, 0.5), (0.24, 0.4), (0.14, 0.4)), b.pale)
    b.oval(0.14, 0.26, 0.86, 0.35, b.pale)
    b.line(((0.5, 0.31), (0.5, 0.22)), DARK, 1.2)
    b.poly(((0.5, 0.0), (0.68, 0.14), (0.6, 0.25), (0.4, 0.25), (0.32, 0.14)), (255, 170, 40), edge=False)
    b.poly(((0.5, 0.09), (0.58, 0.17), (0.5, 0.24), (0.42, 0.17)), (255, 240, 150), edge=False)
    b.rect(0.0, 0.88, 1.0, 1.0, STEEL, round_by=0.5)


def cushion(b: Brush) -> None:
    b.poly(((0.0, 0.02), (0.25, 0.09), (0.5, 0.11), (0.75, 0.09), (1.0, 0.02), (0.93, 0.3), (0.91, 0.5), (0.93, 0.72), (1.0, 1.0), (0.75, 0.93), (0.5, 0.92), (0.25, 0.93), (0.0, 1.0), (0.07, 0.72), (0.09, 0.5), (0.07, 0.3)))  # fmt: skip  # noqa: E501
    b.poly(((0.16, 0.2), (0.5, 0.24), (0.84, 0.2), (0.8, 0.5), (0.84, 0.82), (0.5, 0.78), (0.16, 0.82), (0.2, 0.5)), b.pale)  # fmt: skip  # noqa: E501
    for x, y in ((0.3, 0.34), (0.7, 0.34), (0.3, 0.68), (0.7, 0.68)):
        b.line(((0.5, 0.51), (x, y)), b.deep)
    b.disc(0.5, 0.51, 0.07, b.deep)


def box(b: Brush) -> None:
    b.poly(((0.08, 0.3), (0.26, 0.12), (0.86, 0.12), (0.92, 0.3)), b.deep)
    b.poly(((0.08, 0.3), (0.0, 0.12), (0.2, 0.0), (0.26, 0.12)), b.pale)
    b.poly(((0.92, 0.3), (1.0, 0.12), (0.82, 0.0), (0.86, 0.12)), b.pale)
    b.rect(0.08, 0.3, 0.92, 1.0)
    b.rect(0.44, 0.3, 0.56, 0.42, b.pale)


def ball(b: Brush) -> None:
    b.oval(0.0, 0.0, 1.0, 1.0)
    b.arc(0.3, 0.0, 0.7, 1.0, 0, 360, b.ink, 1.6)
    b.arc(-0.5, 0.1, 0.24, 0.9, -62, 62, b.ink, 1.6)
    b.arc(0.76, 0.1, 1.5, 0.9, 118, 242, b.ink, 1.6)
    b.line(((0.01, 0.5), (0.99, 0.5)), b.ink, 1.6)
    b.oval(0.2, 0.12, 0.4, 0.28, shade(b.main, 0.55), edge=False)


def teddy_bear(b: Brush) -> None:
    for x in (0.08, 0.66):
        b.oval(x, 0.74, x + 0.26, 1.0)
        b.oval(x + 0.06, 0.8, x + 0.2, 0.95, b.pale)
    for x in (0.02, 0.72):
        b.oval(x, 0.46, x + 0.26, 0.72)
    b.oval(0.2, 0.42, 0.8, 0.98)
    b.oval(0.32, 0.56, 0.68, 0.9, b.pale)
    for x in (0.14, 0.62):
        b.oval(x, 0.0, x + 0.24, 0.2)
        b.oval(x + 0.06, 0.05, x + 0.18, 0.15, b.pale)
    b.oval(0.18, 0.04, 0.82, 0.5)
    b.oval(0.36, 0.27, 0.64, 0.47, b.pale)
    for x in (0.36, 0.64):
        b.disc(x, 0.23, 0.04, DARK, edge=False)
    b.oval(0.44, 0.3, 0.56, 0.37, DARK, edge=False)
    b.line(((0.5, 0.37), (0.5, 0.42)), DARK)


def cat(b: Brush) -> None:
    b.arc(0.54, 0.36, 0.98, 0.96, -60, 100, b.edge, 6.0)
    b.arc(0.55, 0.37, 0.97, 0.95, -60, 100, b.main, 4.6)
    b.oval(0.2, 0.42, 0.74, 1.0)
    for x in (0.3, 0.48):
        b.oval(x, 0.62, x + 0.17, 1.0, b.pale)
    for side in (0.0, 1.0):
        ear = ((0.15, 0.0), (0.12, 0.26), (0.38, 0.14))
        b.poly([(x if not side else 0.94 - x, y) for x, y in ear])
        b.poly([(0.18, 0.07) if not side else (0.76, 0.07), (0.17, 0.2) if not side else (0.77, 0.2), (0.29, 0.14) if not side else (0.65, 0.14)], (236, 160, 160), edge=False)  # fmt: skip  # noqa: E501
    b.oval(0.12, 0.1, 0.82, 0.58)
    for x in (0.32, 0.62):
        b.oval(x - 0.07, 0.25, x + 0.07, 0.38, (190, 214, 90), edge=False)
        b.oval(x - 0.02, 0.25, x + 0.02, 0.38, (20, 20, 20), edge=False)
    b.poly(((0.43, 0.4), (0.51, 0.4), (0.47, 0.45)), (226, 120, 130), edge=False)
    for y in (0.42, 0.48):
        b.line(((0.4, 0.45), (0.06, y)), b.ink, 0.7)
        b.line(((0.54, 0.45), (0.88, y)), b.ink, 0.7)
    b.line(((0.39, 0.5), (0.47, 0.47), (0.55, 0.5)), b.ink, 0.8)


def dog(b: Brush) -> None:
    b.poly(((0.84, 0.46), (0.9, 0.3), (0.93, 0.12), (0.99, 0.12), (1.0, 0.3), (0.94, 0.54)))
    for x in (0.41, 0.71):
        b.rect(x, 0.6, x + 0.1, 0.98, b.deep, round_by=0.4)
    b.rect(0.3, 0.4, 0.95, 0.74, round_by=0.5)
    for x in (0.31, 0.82):
        b.rect(x, 0.56, x + 0.12, 1.0, round_by=0.4)
        b.rect(x - 0.04, 0.92, x + 0.12, 1.0, round_by=0.5)
    b.oval(0.29, 0.28, 0.52, 0.72)
    b.rect(0.32, 0.58, 0.42, 0.8, edge=False)
    b.poly(((0.28, 0.38), (0.46, 0.34), (0.48, 0.42), (0.3, 0.46)), _collar(b))
    b.rect(0.0, 0.2, 0.3, 0.42, b.pale, round_by=0.5)
    b.oval(0.13, 0.03, 0.46, 0.42)
    b.rect(0.02, 0.22, 0.24, 0.39, b.pale, round_by=0.5, edge=False)
    b.oval(0.0, 0.19, 0.1, 0.3, (24, 22, 24), edge=False)
    b.line(((0.05, 0.355), (0.14, 0.375), (0.22, 0.35)), DARK)
    b.disc(0.23, 0.16, 0.04, (20, 20, 22) if brightness(b.main) > 60 else PAPER, edge=False)
    b.oval(0.33, 0.05, 0.5, 0.46, b.deep)


def _collar(b: Brush) -> Rgb:
    return (40, 150, 170) if b.main[0] > b.main[2] + 30 else (200, 40, 50)


OBJECTS = {
    "plant": plant,
    "lamp": lamp,
    "television": television,
    "laptop": laptop,
    "book": book,
    "cup": cup,
    "bowl": bowl,
    "bottle": bottle,
    "vase": vase,
    "candle": candle,
    "cushion": cushion,
    "box": box,
    "ball": ball,
    "teddy bear": teddy_bear,
    "cat": cat,
    "dog": dog,
}
