"""What does a person see of an extraction? Its progress, and at the end what was made and what was skipped, and why."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from lit_attn.progress import shown

if TYPE_CHECKING:
    from lit_attn.extract.outcome import Outcome

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
        return _summarise(list(shown(outcomes, total, "pictures")), what, place)
    except KeyboardInterrupt:
        say("Interrupted. The same command goes on where it stopped.")
        raise


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
