"""What does a person see of an extraction? Its progress, and at the end what was made and what was skipped, and why."""

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lit_attn.extract.outcome import Outcome

SECONDS_BETWEEN_LINES = 15.0
LISTED = 20
"""At most so many skipped pictures are listed."""


def follow(outcomes: Iterable["Outcome"], total: int, what: str, place: Path) -> int:
    """Goes through the pictures; returns the exit code: 0 when there is something of at least one, else 2.

    Args:
        outcomes: What becomes of each picture, while it happens.
        total: How many there are.
        what: What is made, in the plural.
        place: Where it is written.
    """
    try:
        return _summarise(list(shown(outcomes, total)), what, place)
    except KeyboardInterrupt:
        say("Interrupted. The same command goes on where it stopped.")
        raise


def shown(outcomes: Iterable["Outcome"], total: int) -> Iterator["Outcome"]:
    """The same outcomes, with a progress bar on a terminal and a line now and then in a log."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(highlight=False, soft_wrap=True)
    if console.is_terminal:
        columns = (TextColumn("pictures"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console) as progress:
            yield from progress.track(outcomes, total)
        return
    begun = last = time.monotonic()
    for done, outcome in enumerate(outcomes, 1):
        if time.monotonic() - last > SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            say(f"[{last - begun:6.0f} s] {done}/{total} pictures")
        yield outcome


def _summarise(outcomes: list["Outcome"], what: str, place: Path) -> int:
    from lit_attn.extract.outcome import Result

    made, kept, skipped = ([o for o in outcomes if o.result is result] for result in Result)
    there = f", {len(kept)} were there already" if kept else ""
    say(f"{what}: {place} has those of {len(made) + len(kept)} pictures{there}")
    if skipped:
        say(f"Skipped {len(skipped)}:")
        for outcome in skipped[:LISTED]:
            say(f"  {outcome.source.path}: {outcome.reason}")
        if len(skipped) > LISTED:
            say(f"  and {len(skipped) - LISTED} more")
    return 0 if made or kept else 2


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
