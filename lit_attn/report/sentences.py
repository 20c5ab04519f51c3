"""How does a text made of tokens read as ordinary prose?

Captions and paragraphs are tokens joined by blanks, and "." is a token: `a red sofa . it is big .`
"""

import re

_ENDS = frozenset(".!?")
_BLANK_BEFORE_MARK = re.compile(r" ([.,;:!?])(?= |$)")


def sentences(text: str) -> list[str]:
    """The sentences of the text as prose. What follows the last full stop is a sentence too."""
    found: list[list[str]] = [[]]
    for token in text.split():
        found[-1].append(token)
        if token in _ENDS:
            found.append([])
    return [_prose(tokens) for tokens in found if tokens]


def _prose(tokens: list[str]) -> str:
    closed = _BLANK_BEFORE_MARK.sub(r"\1", " ".join(tokens))
    return closed[:1].upper() + closed[1:]
