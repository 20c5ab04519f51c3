"""Which words does the Scenes world speak? Tags and lemmas of its words, and several ways to say the same thing.

Tags follow what spaCy's English pipelines give: materials such as "metal" are nouns in a compound, "wooden" and
"ceramic" are adjectives, "is" is an auxiliary but a verb in "there is", "next" in "next to" is an adverb.
"""

from functools import lru_cache
from random import Random

from .grammar import Fragment, Word, fragment, word
from .world import KINDS, ROOMS, Relation

_TAGS = {
    "DET": "a an the this",
    "ADP": "on under beneath underneath to of in behind beside by above over below near from with as than",
    "ADV": "next close far also",
    "PART": "not",
    "NOUN": "left right side top front background foreground wall floor room photo color size material kind thing number word",
    "PRON": "there it they that which you someone what both",
    "AUX": "can has be are does do",
    "VERB": "see put seen located contains contain shows made call say written printed read find",
    "CCONJ": "and or",
    "SCONJ": "while how",
    "ADJ": "many more fewer same equal greater smaller big total",
    "PUNCT": ". , ?",
}
_LEMMAS = {
    "an": "a", "are": "be", "has": "have", "seen": "see", "located": "locate", "contains": "contain", "shows": "show",
    "does": "do", "made": "make", "written": "write", "printed": "print", "more": "many", "fewer": "few",
    "greater": "great", "smaller": "small",
}  # fmt: skip
LEXICON: dict[str, Word] = {
    form: Word(form, _LEMMAS.get(form, form), tag) for tag, forms in _TAGS.items() for form in forms.split()
} | {
    "is": Word("is", "be", "AUX"),
    "exists": Word("is", "be", "VERB"),
    "exist": Word("are", "be", "VERB"),
    "having": Word("has", "have", "VERB"),
    "have": Word("have", "have", "VERB"),
    "left_hand": Word("left", "left", "ADJ"),
    "right_hand": Word("right", "right", "ADJ"),
    "as_many": Word("as", "as", "ADV"),
    "which_one": Word("which", "which", "DET"),
    "what_one": Word("what", "what", "DET"),
    "this_one": Word("this", "this", "PRON"),
}
"""Words of sentence frames by name. The name is the form, except where one form has two tags."""


def _say(*texts: str) -> tuple[Fragment, ...]:
    return tuple(fragment(text, LEXICON) for text in texts)


RELATION_WORDS: dict[Relation, tuple[Fragment, ...]] = {
    Relation.ON: _say("on", "on", "on top/pobj>on of/prep>top"),
    Relation.UNDER: _say("under", "under", "beneath", "underneath"),
    Relation.LEFT: _say(
        "to the/det>left left/pobj>to of/prep>left",
        "to the/det>left left/pobj>to of/prep>left",
        "on the/det>side left_hand/amod>side side/pobj>on of/prep>side",
        "on the/det>left left/pobj>on of/prep>left",
    ),
    Relation.RIGHT: _say(
        "to the/det>right right/pobj>to of/prep>right",
        "to the/det>right right/pobj>to of/prep>right",
        "on the/det>side right_hand/amod>side side/pobj>on of/prep>side",
        "on the/det>right right/pobj>on of/prep>right",
    ),
    Relation.BEHIND: _say("behind"),
    Relation.FRONT: _say("in front/pobj>in of/prep>front"),
    Relation.NEXT: _say("next to/prep>next", "beside", "next to/prep>next", "by"),
    Relation.ABOVE: _say("above", "over", "above"),
    Relation.BELOW: _say("below"),
    Relation.NEAR: _say("near", "close to/prep>close", "not/neg>far far from/prep>far"),
}
"""Ways to say a relation; the more usual ones stand there twice."""

_UPRIGHT = ("stand", "sit")
_LYING = ("lie", "rest", "sit")
_POSTURES: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("plant", "lamp", "television", "bottle", "vase", "candle", "cup", "bowl"), _UPRIGHT),
    **dict.fromkeys(("book", "laptop", "cushion", "ball", "box", "teddy bear"), _LYING),
    **dict.fromkeys(("picture", "poster", "sign", "mirror", "clock"), ("hang",)),
    "cat": ("sit", "lie"),
    "dog": ("sit", "stand", "lie"),
    "window": (),
}
_FORMS = {
    "stand": ("stands", "standing"),
    "sit": ("sits", "sitting"),
    "lie": ("lies", "lying"),
    "hang": ("hangs", "hanging"),
    "rest": ("rests", "resting"),
}
VERBS: dict[tuple[str, str], Fragment] = {}
"""(lemma, form) to the verb: forms are `one`, `many` and `ing`."""
for _lemma, (_one, _ing) in _FORMS.items():
    VERBS[_lemma, "one"] = word(_one, _lemma, "VERB")
    VERBS[_lemma, "many"] = word(_lemma, _lemma, "VERB")
    VERBS[_lemma, "ing"] = word(_ing, _lemma, "VERB")

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
SIZE_WORDS = {"small": ("small", "small", "little"), "large": ("large", "large", "big")}
_MATERIAL_NOUNS = frozenset({"metal", "glass", "plastic", "leather", "fabric", "paper", "stone"})
UNTOLD_MATERIALS = frozenset({("book", "paper"), ("plant", "ceramic"), ("plant", "plastic"), ("teddy bear", "fabric")})
"""Materials that nobody would mention."""
NAMES: dict[str, tuple[tuple[str, str], ...]] = {
    kind.name: ((kind.name, kind.plural), *kind.synonyms) for kind in KINDS.values()
}
"""Kind to its names, as (singular, plural); the plain name first."""
KIND_OF_NAME = {name: kind for kind, names in NAMES.items() for pair in names for name in pair}
"""Singular or plural name to the kind."""
ANYTHING = (("thing", "things"), ("object", "objects"))
"""Names for what may be of any kind."""
_SINGULAR = {many: one for names in (*NAMES.values(), ANYTHING) for one, many in names}
_PARTICIPLES = {"stuffed": ("stuff", "VERB", "amod"), "living": ("living", "NOUN", "compound")}
_PRINTED_TAGS = {
    **dict.fromkeys(("paris", "london", "rome", "tokyo"), "PROPN"),
    **dict.fromkeys(("seven", "twelve", "forty", "1984", "2001", "42", "007"), "NUM"),
    **dict.fromkeys(("open", "quiet", "private"), "ADJ"),
    **dict.fromkeys(("stop", "push", "pull"), "VERB"),
}
_PRINTED_LEMMAS = {"poems": "poem", "maps": "map", "toys": "toy", "tools": "tool", "books": "book"}


def postures(*kinds: str) -> tuple[str, ...]:
    """Verbs for how all such things are placed; none for a window, which just is, or for a poster with a table."""
    first, *rest = (_POSTURES.get(kind, ("stand",)) for kind in kinds)
    return tuple(verb for verb in first if all(verb in verbs for verbs in rest)) if rest else first


def relation_words(relation: Relation, landmark_kind: str | None, rng: Random) -> Fragment:
    """One way to say the relation. "On top of" is for things whose top carries: not for a bed."""
    ways = RELATION_WORDS[relation]
    if relation is Relation.ON and landmark_kind is not None and KINDS[landmark_kind].surface != 0.0:
        return ways[0]
    return ways[int(rng.random() * len(ways))]


def printed_word(text: str) -> Word:
    """A printed word as a token."""
    return Word(text, _PRINTED_LEMMAS.get(text, text), _PRINTED_TAGS.get(text, "NOUN"))


def article(following: str) -> str:
    """ "a" or "an"."""
    return "an" if following[0] in "aeiou" else "a"


@lru_cache(maxsize=1 << 16)
def noun_phrase(
    determiner: str | None,
    adjectives: tuple[str, ...],
    name: str,
    plural: bool = False,
    printed: str | None = None,
    saying: int = 0,
) -> Fragment:
    """Determiner ("a" agrees with what follows, a number may stand in its place), adjectives, name, printed word."""
    tokens: list[str] = []
    lemmas: list[str] = []
    pos: list[str] = []
    deps: list[str] = []
    before = (*adjectives, *name.split())
    if determiner is not None:
        number = determiner in NUMBERS
        form = article(before[0]) if determiner == "a" else determiner
        tokens.append(form)
        lemmas.append(determiner)
        pos.append("NUM" if number else "ADJ" if determiner == "other" else "DET")
        deps.append("nummod" if number else "det")
    for adjective in adjectives:
        noun = adjective in _MATERIAL_NOUNS
        tokens.append(adjective)
        lemmas.append(adjective)
        pos.append("NOUN" if noun else "ADJ")
        deps.append("compound" if noun else "amod")
    *first, last = name.split()
    for part in first:
        lemma, tag, dep = _PARTICIPLES.get(part, (part, "NOUN", "compound"))
        tokens.append(part)
        lemmas.append(lemma)
        pos.append(tag)
        deps.append(dep)
    head = len(tokens)
    tokens.append(last)
    lemmas.append(_SINGULAR[name].split()[-1] if plural else last)
    pos.append("NOUN")
    deps.append("")
    heads = [head] * (head + 1)
    nouns = [(0, head + 1, head)]
    if printed is not None:
        _add_printed(printed, saying, head, tokens, lemmas, pos, heads, deps, nouns)
    return Fragment(tuple(tokens), tuple(lemmas), tuple(pos), tuple(heads), tuple(deps), head, head, tuple(nouns))


def _add_printed(
    printed: str,
    saying: int,
    head: int,
    tokens: list[str],
    lemmas: list[str],
    pos: list[str],
    heads: list[int],
    deps: list[str],
    nouns: list[tuple[int, int, int]],
) -> None:
    """Appends "that says tea", "with the word tea on it" or "labeled tea" to a noun phrase."""
    text, lemma, tag = printed_word(printed)
    n = head + 1
    if saying == 0:
        rows = [("that", "that", "PRON", n + 1, "nsubj"), ("says", "say", "VERB", head, "relcl")]
        rows.append((text, lemma, tag, n + 1, "dobj"))
    elif saying == 1:
        rows = [("with", "with", "ADP", head, "prep"), ("the", "the", "DET", n + 2, "det")]
        rows += [("word", "word", "NOUN", n, "pobj"), (text, lemma, tag, n + 2, "appos")]
        rows += [("on", "on", "ADP", n + 2, "prep"), ("it", "it", "PRON", n + 4, "pobj")]
        nouns.append((n + 1, n + 3, n + 2))
    else:
        rows = [("labeled", "label", "VERB", head, "acl"), (text, lemma, tag, n, "oprd")]
    for form, base, part, parent, dep in rows:
        tokens.append(form)
        lemmas.append(base)
        pos.append(part)
        heads.append(parent)
        deps.append(dep)


@lru_cache(maxsize=64)
def room_phrase(determiner: str, room: str) -> Fragment:
    """ "a living room", "the kitchen", "this office"."""
    if room not in ROOMS:
        raise ValueError(f"No room is called {room!r}. Known rooms: {', '.join(ROOMS)}.")
    return noun_phrase(determiner, (), room)
