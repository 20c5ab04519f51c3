"""How are two ways of doing the same thing compared? In one process, taking turns, by the medians of their times."""

import statistics
import time
from collections.abc import Callable


def ratio(title: str, ours: Callable[[], object], theirs: Callable[[], object], rounds: int, note: str = "") -> float:
    """Prints and returns how many times longer the other way takes."""
    ours()
    theirs()
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for taken, call in zip(times, (ours, theirs), strict=True):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    own, other = (statistics.median(taken) for taken in times)
    print(f"{title}: {other / own:.2f}x  (theirs {1000 * other:.1f} ms, ours {1000 * own:.1f} ms{note})")
    return other / own
