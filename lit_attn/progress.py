"""How far is a long piece of work? A bar on a terminal, a plain line now and then in a log."""

import sys
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

SECONDS_BETWEEN_LINES = 15.0

Item = TypeVar("Item")


def shown(items: Iterable[Item], total: int, what: str) -> Iterator[Item]:
    """The same items, while a person sees how many of them are done.

    Args:
        items: What is worked on, one after another.
        total: How many there are.
        what: What they are, in the plural.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(highlight=False, soft_wrap=True)
    if console.is_terminal:
        columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console) as progress:
            yield from progress.track(items, total)
        return
    begun = last = time.monotonic()
    for done, item in enumerate(items, 1):
        if time.monotonic() - last > SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            sys.stdout.write(f"[{last - begun:6.0f} s] {done}/{total} {what}\n")
            sys.stdout.flush()
        yield item
