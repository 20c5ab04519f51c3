"""What is one explanation about? A subject of some samples, and how each of them is shown and named."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from PIL import Image

from lit_attn.attribution.subject import Comparison, Subject
from lit_attn.drawing.explanation import View
from lit_attn.errors import UserError, did_you_mean


@dataclass(frozen=True)
class Shown:
    """How one sample is shown."""

    name: str
    """Stable over runs; samples of one name share a sheet."""
    picture: Image.Image | None
    heading: str
    """The text that it is about: a caption, a question, a sentence."""
    views: dict[str, View]
    """How the items of each stream are drawn."""
    place: str = ""
    """What tells it from other samples of the same name, such as the place of a word."""


@dataclass(frozen=True)
class Case:
    """Samples that are explained together."""

    subject: Subject
    shown: tuple[Shown, ...]
    name_of: Callable[[int, int], str]
    """The name of a class: number of the sample, number of the class."""
    names: tuple[str, ...] = ()
    """All classes that can be asked for by name; the same for all samples."""

    def asked(self, sample: int) -> str:
        """What is explained, in words."""
        first = self.name_of(sample, int(self.subject.classes[sample]))
        if self.subject.versus is None:
            return first
        sign = "−" if self.subject.comparison == "difference" else "/"
        return f"{first} {sign} {self.name_of(sample, int(self.subject.versus[sample]))}"

    def about(self, target: str | None, versus: str | None, comparison: Comparison) -> "Case":
        """The same about a class that the user names, or against one."""
        if target is None and versus is None:
            return self
        classes, device = self.subject.classes, self.subject.classes.device
        if target is not None:
            classes = torch.full_like(classes, class_of(target, self.names))
        other = None
        if versus is not None:
            other = torch.full_like(classes, class_of(versus, self.names)).to(device)
            if bool((other == classes).all()):
                raise UserError(f"--versus {versus!r} is the class that is explained itself. Name another one.")
        return Case(self.subject.asking(classes, other, comparison), self.shown, self.name_of, self.names)


def class_of(name: str, names: Iterable[str]) -> int:
    """The number of a class, by its name or by its number."""
    known = list(names)
    if name in known:
        return known.index(name)
    if name.lstrip("-").isdigit():
        return int(name)  # whether there is such a class, the network knows
    shown = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
    raise UserError(f"There is no class {name!r}.{did_you_mean(name, known)} Classes by number, or by name: {shown}.")
