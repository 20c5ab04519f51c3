"""How do words with known grammar become an annotated sentence? Fragments carry their own tree; `assemble` joins them.

A fragment is a run of tokens whose tree hangs on one token, its head. A sentence is a row of parts: each part is a
fragment, the label of its head, and the part that this head hangs on. Labels follow ClearNLP, as spaCy's English
pipelines do (`nsubj`, `attr`, `prep`, `pobj`, `relcl`, …). Trees are right by construction; nothing is parsed.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from ...types import Annotation, Phrase, SpatialTriple

_phrase = lru_cache(maxsize=1 << 15)(Phrase)
_triple = lru_cache(maxsize=1 << 15)(SpatialTriple)
"""Frozen and few: shared between sentences, which halves the time to make one."""


class Word(NamedTuple):
    """A token with its lemma and universal tag."""

    form: str
    lemma: str
    pos: str


class Fragment(NamedTuple):
    """Tokens with an inner tree. `heads` are positions inside it; the label of its head is left to the sentence."""

    tokens: tuple[str, ...]
    lemmas: tuple[str, ...]
    pos: tuple[str, ...]
    heads: tuple[int, ...]
    deps: tuple[str, ...]
    head: int = 0
    tail: int = 0
    """Where a noun phrase hangs that completes the fragment: the last preposition of "to the left of"."""
    nouns: tuple[tuple[int, int, int], ...] = ()
    """Base noun phrases inside, as (start, end, head). Only the first may name things."""


class Part(NamedTuple):
    """A fragment at its place in a sentence. `parent`: number of the part it hangs on; the root hangs on itself."""

    fragment: Fragment
    dep: str
    parent: int
    objects: tuple[int, ...] = ()
    completes: bool = False
    """Hangs on the tail, not on the head, of its parent."""


class Link(NamedTuple):
    """A spatial relation between parts, given by their numbers."""

    target: int
    relation: int
    landmark: int
    kind: str


def word(form: str, lemma: str, pos: str, nouns: bool = False) -> Fragment:
    """A fragment of one token; a noun phrase by itself if `nouns`."""
    return Fragment((form,), (lemma,), (pos,), (0,), ("",), nouns=((0, 1, 0),) if nouns else ())


def fragment(text: str, lexicon: Mapping[str, Word]) -> Fragment:
    """Reads "to the/det>left left/pobj>to of/prep>left": word, label, the word it hangs on. The head has none.

    Nouns with a determiner become base noun phrases, and the last token is the tail.
    """
    pieces = [piece.partition("/") for piece in text.split()]
    names = [form for form, _, _ in pieces]
    heads, deps, head = [], [], 0
    for i, (form, _, rest) in enumerate(pieces):
        if form not in lexicon:
            raise ValueError(f"Word {form!r} of fragment {text!r} is not in the lexicon. Known: {sorted(lexicon)}.")
        dep, _, parent = rest.partition(">")
        head = head if parent else i
        heads.append(names.index(parent) if parent else i)
        deps.append(dep)
    nouns = []
    for i, name in enumerate(names):
        before = [j for j in range(i) if heads[j] == i and deps[j] in ("det", "amod", "compound")]
        if lexicon[name].pos == "NOUN" and any(deps[j] == "det" for j in before):
            nouns.append((min(before), i + 1, i))
    words = [lexicon[name] for name in names]
    return Fragment(
        tuple(w.form for w in words),
        tuple(w.lemma for w in words),
        tuple(w.pos for w in words),
        tuple(heads),
        tuple(deps),
        head,
        len(words) - 1,
        tuple(nouns),
    )


def assemble(parts: Sequence[Part], links: Sequence[Link] = ()) -> Annotation:
    """The sentence that the parts make, with its phrases and spatial triples.

    A link whose target or landmark is no noun phrase (a pronoun of an earlier sentence's thing) gives no triple.
    """
    tokens: list[str] = []
    lemmas: list[str] = []
    pos: list[str] = []
    heads: list[int] = []
    deps: list[str] = []
    phrases: list[Phrase] = []
    starts: list[int] = []
    for piece, dep, _, objects, _ in parts:
        start = len(tokens)
        starts.append(start)
        words, lemma, tag, inner, labels, head, _, nouns = piece
        tokens += words
        lemmas += lemma
        pos += tag
        deps += labels
        deps[start + head] = dep
        heads += [start + above for above in inner] if len(inner) > 1 else (start,)
        for first, end, noun in nouns:
            phrases.append(_phrase((start + first, start + end), start + noun, objects))
            objects = ()
    for i, (piece, _, parent, _, completes) in enumerate(parts):
        if parent != i:
            above = parts[parent][0]
            heads[starts[i] + piece.head] = starts[parent] + (above.tail if completes else above.head)
    triples = []
    for target, relation, landmark, kind in links:
        named, beside = parts[target][0].nouns, parts[landmark][0].nouns
        if named and beside:
            at, begin, to = starts[target], starts[relation], starts[landmark]
            triples.append(
                _triple(
                    (at + named[0][0], at + named[0][1]),
                    (begin, begin + len(parts[relation][0].tokens)),
                    (to + beside[0][0], to + beside[0][1]),
                    kind,
                )
            )
    return Annotation(
        tuple(tokens), tuple(lemmas), tuple(pos), tuple(heads), tuple(deps), tuple(phrases), tuple(triples)
    )
