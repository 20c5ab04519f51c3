"""How is each kind drawn, and where does its printed word go? Things on the wall are here, the rest is collected."""

from collections.abc import Callable
from math import cos, pi, sin

from .brush import DARK, PAPER, SKY, STEEL, Brush
from .furniture import FURNITURE
from .objects import OBJECTS


def picture(b: Brush) -> None:
    b.rect(0.0, 0.0, 1.0, 1.0)
    b.rect(0.05, 0.05, 0.95, 0.95, b.pale)
    b.rect(0.1, 0.1, 0.9, 0.9)
    b.rect(0.2, 0.2, 0.8, 0.8, (214, 226, 230))
    b.disc(0.66, 0.34, 0.07, (250, 214, 120), edge=False)
    b.poly(((0.21, 0.64), (0.38, 0.36), (0.52, 0.6), (0.62, 0.48), (0.79, 0.66), (0.79, 0.79), (0.21, 0.79)), b.deep)
    b.rect(0.21, 0.68, 0.79, 0.79, b.pale, edge=False)


def poster(b: Brush) -> None:
    b.rect(0.0, 0.0, 1.0, 1.0)
    b.disc(0.5, 0.34, 0.26, b.pale)
    b.poly(((0.5, 0.14), (0.57, 0.29), (0.73, 0.3), (0.6, 0.4), (0.66, 0.54), (0.5, 0.45), (0.34, 0.54), (0.4, 0.4), (0.27, 0.3), (0.43, 0.29)), b.deep)  # fmt: skip  # noqa: E501
    for x in (0.09, 0.91):
        for y in (0.06, 0.94):
            b.disc(x, y, 0.04, STEEL)
    b.line(((0.2, 0.92), (0.8, 0.92)), b.ink)
    if not b.printed:
        b.poly(((0.14, 0.84), (0.38, 0.66), (0.52, 0.78), (0.66, 0.7), (0.86, 0.84)), b.pale)


def sign(b: Brush) -> None:
    b.rect(0.0, 0.0, 1.0, 1.0, round_by=0.25)
    b.rect(0.04, 0.08, 0.96, 0.92, round_by=0.2, edge=False)
    b.frame(0.045, 0.085, 0.955, 0.915, b.ink, round_by=0.2)
    for x in (0.09, 0.91):
        b.disc(x, 0.5, 0.045, STEEL)
    if not b.printed:
        b.poly(
            ((0.22, 0.42), (0.56, 0.42), (0.56, 0.24), (0.8, 0.5), (0.56, 0.76), (0.56, 0.58), (0.22, 0.58)),
            b.ink,
            edge=False,
        )


def mirror(b: Brush) -> None:
    b.oval(0.0, 0.04, 1.0, 1.0)
    b.oval(0.06, 0.08, 0.94, 0.96, b.pale)
    b.oval(0.1, 0.11, 0.9, 0.93)
    b.disc(0.5, 0.06, 0.1)
    glass = (204, 228, 236)
    b.oval(0.2, 0.2, 0.8, 0.84, glass)
    b.poly(((0.34, 0.56), (0.58, 0.28), (0.66, 0.32), (0.38, 0.66)), (244, 252, 255), edge=False)
    b.poly(((0.48, 0.68), (0.7, 0.42), (0.73, 0.46), (0.52, 0.72)), (244, 252, 255), edge=False)


def clock(b: Brush) -> None:
    b.oval(0.0, 0.0, 1.0, 1.0)
    b.oval(0.19, 0.19, 0.81, 0.81, PAPER)
    for tick in range(12):
        angle = tick * pi / 6
        inner = 0.24 if tick % 3 else 0.2
        start, end = (
            (0.5 + inner * cos(angle), 0.5 + inner * sin(angle)),
            (0.5 + 0.28 * cos(angle), 0.5 + 0.28 * sin(angle)),
        )
        b.line((start, end), DARK, 1.2)
    b.line(((0.5, 0.5), (0.5, 0.27)), DARK, 2.0)
    b.line(((0.5, 0.5), (0.66, 0.58)), DARK, 2.4)
    b.disc(0.5, 0.5, 0.05, DARK, edge=False)


def window(b: Brush) -> None:
    b.rect(0.08, 0.06, 0.92, 0.94)
    b.rect(0.15, 0.11, 0.85, 0.88, SKY)
    b.oval(0.3, 0.24, 0.62, 0.38, PAPER, edge=False)
    b.poly(
        ((0.15, 0.88), (0.15, 0.76), (0.4, 0.66), (0.62, 0.74), (0.85, 0.68), (0.85, 0.88)), (130, 180, 110), edge=False
    )
    b.rect(0.465, 0.1, 0.535, 0.9)
    b.rect(0.14, 0.47, 0.86, 0.53)
    b.rect(0.02, 0.92, 0.98, 1.0, b.pale)
    for mirrored in (False, True):
        curtain = ((0.02, 0.04), (0.34, 0.04), (0.3, 0.36), (0.16, 0.6), (0.2, 0.92), (0.02, 0.92))
        b.poly([(1 - x, y) if mirrored else (x, y) for x, y in curtain])
        for x in (0.08, 0.15, 0.22):
            fold = ((x, 0.06), (0.04 + 0.6 * x, 0.58), (0.04 + 0.7 * x, 0.9))
            b.line([(1 - px, py) if mirrored else (px, py) for px, py in fold], b.deep, 1.2)
    b.rect(0.0, 0.0, 1.0, 0.05, b.deep, round_by=0.5)


DRAWINGS: dict[str, Callable[[Brush], None]] = {
    **FURNITURE,
    **OBJECTS,
    "picture": picture,
    "poster": poster,
    "sign": sign,
    "mirror": mirror,
    "clock": clock,
    "window": window,
}

WORD_AREAS: dict[str, tuple[float, float, float, float]] = {
    "book": (0.17, 0.16, 0.86, 0.68),
    "cup": (0.06, 0.32, 0.74, 0.84),
    "bottle": (0.14, 0.53, 0.86, 0.87),
    "box": (0.13, 0.44, 0.87, 0.94),
    "poster": (0.08, 0.62, 0.92, 0.88),
    "sign": (0.16, 0.18, 0.84, 0.82),
}
"""Where a word is printed on the kinds that may carry one."""
