"""How is each piece of furniture and each large appliance drawn?

Where things may rest on a kind, its seat or top is drawn at the line that the kind's `surface` names.
"""

from random import Random

from .brush import DARK, PAPER, SKY, STEEL, Brush, Rgb, shade

_BOOKS: tuple[Rgb, ...] = (
    (206, 72, 66), (70, 126, 196), (232, 190, 84), (84, 160, 96), (158, 104, 176), (232, 226, 210),
)  # fmt: skip


def bed(b: Brush) -> None:
    b.rect(0.03, 0.86, 0.09, 1.0, b.deep)
    b.rect(0.91, 0.86, 0.97, 1.0, b.deep)
    b.rect(0.04, 0.5, 0.96, 0.74, PAPER)
    b.rect(0.03, 0.7, 0.97, 0.9, b.deep)
    b.rect(0.0, 0.0, 0.07, 0.94, b.deep, round_by=0.4)
    b.rect(0.02, 0.07, 0.05, 0.6, b.main, edge=False)
    for left in (0.075, 0.155):
        b.rect(left, 0.3, left + 0.14, 0.52, PAPER, round_by=0.45)
    b.poly(((0.27, 0.45), (0.93, 0.45), (0.95, 0.5), (0.95, 0.83), (0.3, 0.83), (0.27, 0.78)))
    b.poly(((0.27, 0.45), (0.38, 0.45), (0.39, 0.83), (0.3, 0.83), (0.27, 0.78)), b.pale)
    for x in (0.52, 0.66, 0.8):
        b.line(((x, 0.5), (x + 0.015, 0.82)), b.deep)
    b.rect(0.93, 0.36, 1.0, 0.94, b.deep, round_by=0.4)


def sofa(b: Brush) -> None:
    for x in (0.06, 0.88):
        b.rect(x, 0.9, x + 0.06, 1.0, DARK)
    b.rect(0.06, 0.0, 0.94, 0.75, b.deep, round_by=0.18)
    for left in (0.13, 0.5):
        b.rect(left, 0.07, left + 0.37, 0.56, round_by=0.2)
        b.disc(left + 0.185, 0.28, 0.03, b.deep)
    b.rect(0.08, 0.68, 0.92, 0.93, b.deep, round_by=0.1)
    for left in (0.12, 0.5):
        b.rect(left, 0.5, left + 0.38, 0.73, b.pale, round_by=0.3)
    for left in (0.0, 0.86):
        b.rect(left, 0.3, left + 0.14, 0.94, round_by=0.45)
        b.disc(left + 0.07, 0.42, 0.1, b.pale)


def armchair(b: Brush) -> None:
    for x in (0.12, 0.78):
        b.rect(x, 0.9, x + 0.1, 1.0, DARK)
    b.rect(0.12, 0.0, 0.88, 0.75, b.deep, round_by=0.3)
    b.rect(0.2, 0.06, 0.8, 0.58, round_by=0.25)
    b.rect(0.14, 0.68, 0.86, 0.93, b.deep, round_by=0.1)
    b.rect(0.2, 0.5, 0.8, 0.72, b.pale, round_by=0.35)
    for left in (0.0, 0.78):
        b.rect(left, 0.34, left + 0.22, 0.94, round_by=0.5)
        b.disc(left + 0.11, 0.44, 0.09, b.pale)


def chair(b: Brush) -> None:
    for x in (0.12, 0.78):
        b.rect(x, 0.5, x + 0.09, 0.9, b.deep)
    b.rect(0.06, 0.0, 0.18, 0.54)
    b.rect(0.82, 0.0, 0.94, 0.54)
    b.rect(0.06, 0.02, 0.94, 0.14, round_by=0.3)
    for x in (0.3, 0.46, 0.62):
        b.rect(x, 0.14, x + 0.1, 0.5, b.deep)
    b.poly(((0.1, 0.48), (0.9, 0.48), (1.0, 0.57), (0.0, 0.57)), b.pale)
    b.rect(0.0, 0.56, 1.0, 0.63)
    for x in (0.02, 0.85):
        b.rect(x, 0.63, x + 0.13, 1.0)


def stool(b: Brush) -> None:
    b.poly(((0.24, 0.16), (0.38, 0.16), (0.18, 1.0), (0.04, 1.0)))
    b.poly(((0.62, 0.16), (0.76, 0.16), (0.96, 1.0), (0.82, 1.0)))
    b.rect(0.17, 0.58, 0.83, 0.68, b.deep)
    b.rect(0.44, 0.2, 0.56, 0.92, b.deep)
    b.rect(0.02, 0.08, 0.98, 0.27, round_by=0.5)
    b.oval(0.02, 0.0, 0.98, 0.22, b.pale)


def table(b: Brush) -> None:
    for x in (0.17, 0.78):
        b.rect(x, 0.2, x + 0.05, 0.86, b.deep)
    b.rect(0.06, 0.14, 0.94, 0.3, b.deep)
    for x in (0.03, 0.9):
        b.rect(x, 0.14, x + 0.07, 1.0)
    b.rect(0.0, 0.0, 1.0, 0.15, round_by=0.3)
    b.rect(0.015, 0.02, 0.985, 0.06, b.pale, edge=False)


def desk(b: Brush) -> None:
    b.rect(0.06, 0.1, 0.94, 0.56, b.deep)
    b.rect(0.02, 0.1, 0.14, 1.0)
    b.rect(0.86, 0.1, 0.98, 1.0)
    for x in (0.14, 0.38, 0.62):
        b.rect(x, 0.12, x + 0.24, 0.34)
        b.rect(x + 0.08, 0.2, x + 0.16, 0.25, STEEL)
    b.rect(0.0, 0.0, 1.0, 0.13, b.pale, round_by=0.2)


def cabinet(b: Brush) -> None:
    for x in (0.05, 0.83):
        b.rect(x, 0.92, x + 0.12, 1.0, b.deep)
    b.rect(0.03, 0.05, 0.97, 0.95)
    for x in (0.06, 0.51):
        b.rect(x, 0.33, x + 0.43, 0.92)
        b.rect(x + 0.07, 0.4, x + 0.36, 0.85, b.pale)
        b.rect(x, 0.1, x + 0.43, 0.3)
        b.rect(x + 0.15, 0.18, x + 0.28, 0.22, STEEL)
    b.disc(0.45, 0.6, 0.035, STEEL)
    b.disc(0.55, 0.6, 0.035, STEEL)
    b.rect(0.0, 0.0, 1.0, 0.07, b.deep)


def wardrobe(b: Brush) -> None:
    for x in (0.06, 0.82):
        b.rect(x, 0.94, x + 0.12, 1.0, b.deep)
    b.rect(0.03, 0.03, 0.97, 0.96)
    for x in (0.06, 0.51):
        b.rect(x, 0.08, x + 0.43, 0.78)
        b.rect(x + 0.07, 0.12, x + 0.36, 0.4, b.pale)
        b.rect(x + 0.07, 0.45, x + 0.36, 0.74, b.pale)
    b.rect(0.06, 0.8, 0.94, 0.93, b.deep)
    b.rect(0.42, 0.855, 0.58, 0.88, STEEL)
    for x in (0.43, 0.53):
        b.rect(x, 0.38, x + 0.04, 0.5, STEEL)
    b.rect(0.0, 0.0, 1.0, 0.06, b.deep, round_by=0.3)


def bookcase(b: Brush) -> None:
    rng = Random(5)
    b.rect(0.0, 0.0, 1.0, 1.0)
    for shelf in range(4):
        top, bottom = 0.05 + 0.235 * shelf, 0.235 * (shelf + 1)
        b.rect(0.1, top, 0.9, bottom)
        b.rect(0.11, top + 0.004, 0.89, top + 0.05, b.deep, edge=False)
        x = 0.12
        while x < (0.84, 0.5, 0.74, 0.4)[shelf]:
            thick = 0.05 + 0.03 * rng.random()
            high = (0.55 + 0.35 * rng.random()) * (bottom - top)
            b.rect(x, bottom - high, x + thick, bottom, rng.choice(_BOOKS))
            x += thick
    b.rect(0.62, 0.375, 0.8, 0.47, b.pale)
    b.rect(0.55, 0.86, 0.86, 0.94, b.pale)


def fridge(b: Brush) -> None:
    for x in (0.08, 0.8):
        b.rect(x, 0.96, x + 0.12, 1.0, DARK)
    b.rect(0.0, 0.0, 1.0, 0.34, round_by=0.12)
    b.rect(0.0, 0.345, 1.0, 0.975, round_by=0.07)
    b.rect(0.09, 0.14, 0.17, 0.31, STEEL, round_by=0.4)
    b.rect(0.09, 0.38, 0.17, 0.64, STEEL, round_by=0.4)
    b.rect(0.62, 0.06, 0.86, 0.1, b.deep)
    b.line(((0.06, 0.93), (0.94, 0.93)))


def oven(b: Brush) -> None:
    for x in (0.08, 0.8):
        b.rect(x, 0.94, x + 0.12, 1.0, DARK)
    b.rect(0.02, 0.05, 0.98, 0.96)
    b.rect(0.0, 0.0, 1.0, 0.08, b.deep)
    for x in (0.12, 0.56):
        b.rect(x, 0.0, x + 0.32, 0.045, DARK, round_by=0.4, edge=False)
    for x in (0.16, 0.34, 0.66, 0.84):
        b.disc(x, 0.17, 0.055, STEEL)
        b.line(((x, 0.17), (x, 0.13)), DARK, 1.5)
    b.rect(0.43, 0.13, 0.57, 0.21, DARK)
    b.rect(0.08, 0.27, 0.92, 0.8)
    b.rect(0.14, 0.3, 0.86, 0.34, STEEL, round_by=0.5)
    b.rect(0.24, 0.43, 0.76, 0.7, (64, 56, 56), round_by=0.15)
    b.line(((0.3, 0.58), (0.7, 0.58)), (150, 130, 120))
    b.line(((0.3, 0.64), (0.7, 0.64)), (150, 130, 120))
    b.rect(0.08, 0.83, 0.92, 0.93, b.deep)


def bathtub(b: Brush) -> None:
    for x in (0.16, 0.76):
        b.poly(((x, 0.8), (x + 0.09, 0.8), (x + 0.07, 1.0), (x + 0.01, 1.0)), STEEL)
    b.poly(
        ((0.03, 0.34), (0.97, 0.34), (0.95, 0.6), (0.9, 0.8), (0.82, 0.9), (0.18, 0.9), (0.1, 0.8), (0.05, 0.6)),
    )
    for x, y, r in ((0.24, 0.26, 0.1), (0.33, 0.22, 0.13), (0.44, 0.25, 0.11), (0.54, 0.24, 0.1), (0.62, 0.27, 0.08)):
        b.disc(x, y, r, shade(SKY, 0.6))
    b.rect(0.0, 0.28, 1.0, 0.42, b.pale, round_by=0.5)
    b.line(((0.9, 0.3), (0.9, 0.06), (0.8, 0.06), (0.8, 0.16)), shade(STEEL, -0.25), 4.0)
    b.disc(0.93, 0.16, 0.05, STEEL)


def toilet(b: Brush) -> None:
    b.poly(((0.3, 0.78), (0.7, 0.78), (0.78, 1.0), (0.22, 1.0)), b.deep)
    b.rect(0.1, 0.04, 0.9, 0.44, round_by=0.15)
    b.rect(0.06, 0.0, 0.94, 0.1, b.pale, round_by=0.4)
    b.rect(0.16, 0.15, 0.34, 0.2, STEEL)
    b.poly(((0.06, 0.6), (0.94, 0.6), (0.86, 0.76), (0.7, 0.86), (0.3, 0.86), (0.14, 0.76)))
    b.oval(0.02, 0.42, 0.98, 0.72, b.pale)
    b.oval(0.16, 0.47, 0.84, 0.67, shade(SKY, 0.2))
    b.oval(0.28, 0.53, 0.72, 0.66, shade(SKY, -0.2), edge=False)


FURNITURE = {
    "bed": bed,
    "sofa": sofa,
    "armchair": armchair,
    "chair": chair,
    "stool": stool,
    "table": table,
    "desk": desk,
    "cabinet": cabinet,
    "wardrobe": wardrobe,
    "bookcase": bookcase,
    "fridge": fridge,
    "oven": oven,
    "bathtub": bathtub,
    "toilet": toilet,
}
