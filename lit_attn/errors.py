"""What can a user do wrong? One exception, by which the command line tells their mistakes from failures of ours."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Bad usage, configuration or data. The message names the value, what was expected and the way out."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` when a known name is close, else an empty string."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""
