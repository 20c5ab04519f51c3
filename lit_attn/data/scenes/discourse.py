"""What can the things of a paragraph be, sentence after sentence? A story holds what may be meant by what was said so far.

Every thing that a sentence speaks of is a referent, with the things of the scene that it may be. A true sentence leaves
its facts behind, so that the next one is about things for which both hold. A false one leaves only its new referents,
as anything of their kind: the next one is not to blame for it. What a phrase refers to:

    a desk          some desk, also one that was named before
    another desk    one that differs from the others of the sentence and from every desk named or counted before; if
                    there is none, from some other desk
    the desk        any desk that an earlier sentence named or counted; if there is none, some desk
    it              what the grammar puts in focus; where it keeps that open, anything the last sentence spoke of
    they            the two things that the grammar puts together, or else any two that the last sentence spoke of
    the other one   one that was named before, of the kind of "it" but not "it"; if there is none, any such thing

After a sentence that was not understood, "it", "they" and "the other one" may be anything at all.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations, islice, product
from typing import NamedTuple

from .meaning import Description, Meaning, SceneFacts
from .parsing import Mention, Reading
from .solving import Bond, mask, possible

REMEMBERED = 32
"""Referents. A paragraph of the grammar has fewer; in a longer text the oldest are forgotten."""
_CHOICES = 16
"""Ways to take the references of a sentence."""


class Referent(NamedTuple):
    """Something that was spoken of."""

    kind: str | None
    things: int
    """What it may be, as a bit mask."""
    named: bool
    """Whether it had a phrase of its own: not so the members of a counted group, which are still new."""


class Taken(NamedTuple):
    """What a mention is taken to refer to: an earlier referent, or a new one of some kind."""

    referent: int | None
    kind: str | None
    apart: tuple[int, ...] = ()
    """Referents that it differs from."""


@dataclass(frozen=True)
class Story:
    """One way to understand the sentences so far."""

    referents: Mapping[int, Referent] = field(default_factory=dict)
    """By number, those spoken of last at the end."""
    bonds: tuple[Bond, ...] = ()
    focus: tuple[int, ...] = ()
    """What "it" may mean; empty: anything."""
    pairs: tuple[tuple[int, int], ...] = ()
    """What "they" may mean; empty: any two things."""

    def interrupted(self) -> "Story":
        """The story after a sentence that nobody understood."""
        return Story(self.referents, self.bonds)


class Step(NamedTuple):
    """A story with one sentence more."""

    story: Story
    meaning: Meaning
    true: bool


def steps(story: Story, reading: Reading, facts: SceneFacts) -> Iterator[Step]:
    """All ways in which the story can go on with a sentence; none if its references do not suit its words."""
    for taken in islice(_references(story, reading.mentions), _CHOICES):
        earlier = [one.referent for one in taken if one.referent is not None]
        if len(set(earlier)) == len(earlier):
            yield _step(story, reading, taken, facts)


def _references(story: Story, mentions: tuple[Mention, ...]) -> Iterator[tuple[Taken, ...]]:
    """What the mentions of a sentence may be taken to refer to, together."""
    pairs = [(Taken(i, story.referents[i].kind), Taken(j, story.referents[j].kind)) for i, j in story.pairs]
    both = any(mention.way == "they" for mention in mentions)
    for pair in (pairs or [(Taken(None, None), Taken(None, None))]) if both else [()]:
        of_pair = iter(pair)
        options = [[next(of_pair)] if mention.way == "they" else _taken(story, mention) for mention in mentions]
        suiting = [
            [one for one in found if one.kind is None or one.kind in mention.kinds]
            for found, mention in zip(options, mentions, strict=True)
        ]
        yield from product(*suiting)


def _taken(story: Story, mention: Mention) -> list[Taken]:
    """What a mention other than "they" may refer to."""
    kind, known = mention.description.kind, story.referents
    if mention.way == "a":
        return [Taken(None, kind)]
    if mention.way == "another":
        return [Taken(None, kind, tuple(i for i, other in known.items() if other.kind == kind))]
    if mention.way == "the":
        return [Taken(i, kind) for i, other in known.items() if other.kind == kind] or [Taken(None, kind)]
    if mention.way == "it":
        return [Taken(i, known[i].kind) for i in story.focus] or [Taken(None, None)]
    found = []
    for i in story.focus:
        twins = [j for j, other in known.items() if j != i and other.named and other.kind == known[i].kind]
        found += [Taken(j, known[i].kind, (i,)) for j in twins] or [Taken(None, known[i].kind, (i,))]
    return found or [Taken(None, None)]


def _step(story: Story, reading: Reading, taken: tuple[Taken, ...], facts: SceneFacts) -> Step:
    """The story with the sentence, whose mentions are taken in one certain way."""
    told = [replace(mention.description, kind=one.kind) for mention, one in zip(reading.mentions, taken, strict=True)]
    meaning = Meaning(tuple(told), reading.relations, reading.counts, reading.room)
    draft = _Draft(story, facts)
    spoken = [draft.speak_of(*row) for row in zip(reading.mentions, taken, told, strict=True)]
    for i, mention, one in zip(spoken, reading.mentions, taken, strict=True):
        draft.bonds += [(i, other, None) for other in one.apart]
        if mention.way == "another" and not one.apart and [other.kind for other in taken].count(one.kind) == 1:
            draft.bonds.append((i, draft.add(None, facts.fitting(Description(one.kind))), None))
    draft.bonds += [(i, j, None) for i, j in combinations(spoken, 2)]
    draft.bonds += [(spoken[target], spoken[landmark], relation) for relation, target, landmark in reading.relations]
    holds = reading.room in (None, facts.room)
    members: list[int] = []
    for count in reading.counts:
        fitting = facts.fitting(count.description)
        members = [draft.add(count.description.kind, fitting) for _ in range(2)]
        if count.relation is None or count.landmark is None:
            holds = holds and fitting.bit_count() == count.number
        else:
            near, at = facts.related[count.relation], spoken[count.landmark]
            right = mask(i for i, others in enumerate(near) if (fitting & others).bit_count() == count.number)
            draft.narrow(at, right)
            draft.bonds += [(member, at, count.relation) for member in members]
    options = {i: referent.things for i, referent in draft.referents.items()}
    true = holds and possible(options, draft.bonds, (*spoken, *members), facts)
    new = [i for i in spoken if i not in story.referents or not story.referents[i].named]
    focus, pairs = _followed(reading, dict(zip(reading.frame.singles, spoken, strict=True)), new, members)
    referents, bonds = (draft.referents, draft.bonds) if true else ({**draft.referents, **draft.unsaid}, story.bonds)
    kept = dict(list(referents.items())[-REMEMBERED:])
    lasting = dict.fromkeys(bond for bond in bonds if bond[0] in kept and bond[1] in kept)
    return Step(Story(kept, tuple(lasting), focus, pairs), meaning, true)


class _Draft:
    """A story while a sentence is added to it."""

    def __init__(self, story: Story, facts: SceneFacts) -> None:
        self.facts = facts
        self.referents = dict(story.referents)
        self.bonds = list(story.bonds)
        self.unsaid: dict[int, Referent] = {}
        """The referents of the sentence as they are left if it is false."""

    def speak_of(self, mention: Mention, taken: Taken, description: Description) -> int:
        """The referent of a mention, with what the sentence says about it; it is the last one spoken of now."""
        i = self.add(taken.kind, self.facts.everything) if taken.referent is None else taken.referent
        before = self.referents.pop(i)
        named = before.named or mention.way in ("a", "another", "the")
        self.unsaid[i] = self.referents[i] = Referent(before.kind, before.things, named)
        self.narrow(i, self.facts.fitting(description))
        if taken.kind is None:
            self.narrow(i, sum(self.facts.having.get(("kind", kind), 0) for kind in mention.kinds))
        return i

    def add(self, kind: str | None, things: int) -> int:
        """A new referent that is one of these things, and nothing but of its kind if the sentence is false."""
        i = max(self.referents, default=-1) + 1
        of_kind = self.facts.fitting(Description(kind))
        self.unsaid[i], self.referents[i] = Referent(kind, of_kind, False), Referent(kind, of_kind & things, False)
        return i

    def narrow(self, i: int, things: int) -> None:
        """A referent can only be one of these things."""
        self.referents[i] = self.referents[i]._replace(things=self.referents[i].things & things)


def _followed(
    reading: Reading, spoken: dict[str, int], new: list[int], members: list[int]
) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """What "it" and "they" may mean after a sentence, by the rules that paragraphs are told with."""
    frame = reading.frame
    named = (*spoken.values(), *members)
    focus, pairs = named, tuple(combinations(named, 2))
    if members:
        return focus, pairs if new else ((members[0], members[1]),)
    if any(item.what == "pronoun" and frame.status.get(item.letter) == "old" for item in frame.items):
        return focus, pairs
    if frame.status.get("A") != "focus":
        if len(new) == 1 or len(named) == 1:
            return (*new, *named)[:1], pairs
        if len(new) == 2 and {tie.target for tie in frame.ties} != {"A"}:
            return focus, ((new[0], new[1]),)
    return (spoken["A"],), pairs
