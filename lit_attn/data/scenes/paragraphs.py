"""How would somebody describe a scene at leisure? Four to six sentences: the room first, then one thing after another.

Each sentence leans on the ones before: what is known is "the bed" or "it", a look-alike is "another chair" and then
"the other one". Nothing is told twice.
"""

from dataclasses import dataclass, field
from random import Random

from .binding import Binder, Binding
from .frames import Frame
from .layout import Layout, text_random
from .paragraph_frames import CONTINUATIONS, OPENINGS
from .telling import Memory, Sentence, Teller, unmistakable
from .world import Scene

__all__ = ["Sentence", "paragraph"]

SHORTEST, LONGEST = 4, 6
_STARTS = 50
_TRIES = 300
_STRICT_TRIES = 150
_RESUMING = tuple(frame for frame in CONTINUATIONS if {"pair", "twin"} & set(frame.status.values()))
"""Frames that seldom fit, and are tried first where they do."""


def paragraph(scene: Scene) -> tuple[Sentence, ...]:
    """A coherent description in 4 to 6 true sentences."""
    rng = text_random(scene, "paragraph")
    binder = Binder(scene, Layout(scene), rng)
    length = SHORTEST + int(rng.random() * (LONGEST - SHORTEST + 1))
    for _ in range(_STARTS):
        told = _one_try(scene, binder, rng, length)
        if len(told) >= SHORTEST:
            return told
    raise ValueError(
        f"Scene {scene.scene_id} has too little in it for {SHORTEST} sentences: {len(scene.things)} things."
    )


def _one_try(scene: Scene, binder: Binder, rng: Random, length: int) -> tuple[Sentence, ...]:
    """Up to `length` sentences from a fresh start; fewer if nothing is left to say."""
    talk = _Talk(scene)
    teller = Teller(scene, binder, rng, talk.memory)
    told: list[Sentence] = []
    used: set[str] = set()
    for attempt in range(_TRIES):
        if len(told) == length or (attempt > _STRICT_TRIES and len(told) >= SHORTEST):
            break
        frames = OPENINGS
        if told:
            frames = _RESUMING if talk.can_resume() and rng.random() < 0.6 else CONTINUATIONS
        frame = frames[int(rng.random() * len(frames))]
        if frame.name in used and attempt < _STRICT_TRIES:
            continue
        given = talk.given(frame, rng)
        binding = binder.bind(frame, given) if given is not None else None
        if binding is not None and talk.allows(frame, binding):
            new = [i for i in binding.things.values() if i not in talk.memory.names]
            told.append(teller.tell(frame, binding))
            used.add(frame.name)
            talk.note(frame, binding, new)
    return tuple(told)


@dataclass
class _Talk:
    """What was said so far: the known things, what the last sentence was about, the facts told."""

    scene: Scene
    memory: Memory = field(default_factory=Memory)
    focus: int | None = None
    """What "it" means."""
    pair: tuple[int, ...] = ()
    """What "they" means."""
    counted: set[int] = field(default_factory=set)
    """Things that were told as members of a group only."""
    related: set[frozenset[int]] = field(default_factory=set)
    colored: set[int] = field(default_factory=set)

    def given(self, frame: Frame, rng: Random) -> dict[str, int] | None:
        """Known things for the letters that ask for them; None if there are none."""
        given: dict[str, int] = {}
        pair = list(self.pair)
        for letter, status in frame.status.items():
            options: list[int] = []
            if status == "old":
                known = [i for i in self.memory.names if i not in given.values()]
                options = [i for i in known if unmistakable(self.scene, self.memory, i)]
            elif status == "focus":
                options = [] if self.focus is None else [self.focus]
            elif status == "pair":
                options = [pair.pop(0)] if pair else []
            elif status == "twin":
                options = self._twins()
            if options:
                given[letter] = options[int(rng.random() * len(options))]
            elif status != "new":
                return None
        return given

    def can_resume(self) -> bool:
        """Whether "they" or "the other one" would mean something."""
        return bool(self.pair) or bool(self._twins())

    def _twins(self) -> list[int]:
        """The one other known thing of the kind of the focus, if there is just one."""
        if self.focus is None:
            return []
        kind = self.scene.things[self.focus].kind
        twins = [i for i in self.memory.names if i != self.focus and self.scene.things[i].kind == kind]
        counted = any(self.scene.things[i].kind == kind for i in self.counted)
        return twins if len(twins) == 1 and not counted else []

    def allows(self, frame: Frame, binding: Binding) -> bool:
        """Whether the sentence would be clear and new."""
        named = {item.letter for item in frame.items if item.what == "thing"}
        for letter, i in binding.things.items():
            known, status = i in self.memory.names, frame.status.get(letter)
            if (known and status == "new") or (not known and i in self.counted and status != "pair"):
                return False
            if known and letter in named and not unmistakable(self.scene, self.memory, i):
                return False
            if letter in frame.predicates and (i in self.colored or (letter in named and not self._alone(i))):
                return False
        if binding.group is not None:
            kinds = {self.scene.things[i].kind for i in self.memory.names}
            if binding.group.kind in kinds or self.counted & set(binding.group.things):
                return False
        return not any(
            frozenset((binding.things[tie.target], binding.things[tie.landmark])) in self.related
            for tie in frame.ties
            if tie.target != "N"
        )

    def _alone(self, i: int) -> bool:
        kind = self.scene.things[i].kind
        return not any(self.scene.things[other].kind == kind for other in self.memory.names if other != i)

    def note(self, frame: Frame, binding: Binding, new: list[int]) -> None:
        """Remembers what a sentence said. `new` are the things that it named for the first time."""
        things, group = binding.things, binding.group
        for tie in frame.ties:
            if tie.target != "N":
                self.related.add(frozenset((things[tie.target], things[tie.landmark])))
        self.colored |= {things[letter] for letter in frame.predicates}
        self.colored |= {i for i in things.values() if i in self.memory.names and not self._alone(i)}
        self.colored |= {i for i in new if self.scene.things[i].color in self.memory.adjectives.get(i, ())}
        singles = list(things.values())
        self.focus = None
        self.pair = ()
        if group is not None:
            self.counted |= set(group.things)
            self.pair = group.things if len(group.things) == 2 and not new else ()
        elif any(item.what == "pronoun" and frame.status.get(item.letter) == "old" for item in frame.items):
            pass  # "the bed has a lamp next to it": another "it" could mean either
        elif frame.status.get("A") == "focus":
            self.focus = things["A"]
        elif len(new) == 1 or len(singles) == 1:
            self.focus = (new or singles)[0]
        elif len(new) == 2 and {tie.target for tie in frame.ties} != {"A"}:
            self.pair = tuple(new)
        else:
            self.focus = things["A"]
