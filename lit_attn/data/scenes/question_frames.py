"""How are questions worded? Frames by the shape of their program, at least three for each.

Letters: A is what is asked about, B and C are further things or landmarks. A shape is the kind of question with the way
its sets are found: `plain` by their looks, `related` by a landmark, `chain` and `both` by two.
"""

from .frames import Frame, frame

RELATED = "AB>{0} B/pobj>AB"
_CHAIN = "AB>{0} B/pobj>AB BC>B C/pobj>BC"
_BOTH = "AB>{0} B/pobj>AB and/cc>AB AC/conj>AB C/pobj>AC"


def number_frames(shape: str, *texts: str) -> tuple[Frame, ...]:
    """Wordings of one shape, named by number."""
    return tuple(frame(f"{shape} {n}", text) for n, text in enumerate(texts, start=1))


_EXIST = (
    "exists/ROOT there/expl>exists a.A/attr>exists {a.A} ?/punct>exists",
    "exist/ROOT there/expl>exist any.A/attr>exist {any.A} ?/punct>exist",
    "can/aux>see you/nsubj>see see/ROOT a.A/dobj>see {a.A} ?/punct>see",
    "does/aux>have the_room/nsubj>have have/ROOT a.A/dobj>have {a.A} ?/punct>have",
)
_COUNT = (
    "how/advmod>many many/amod>bare.A bare.A/attr>exist {bare.A} exist/ROOT there/expl>exist ?/punct>exist",
    "how/advmod>many many/amod>bare.A bare.A/dobj>see {bare.A} can/aux>see you/nsubj>see see/ROOT ?/punct>see",
    "what/attr>is is/ROOT the_number/nsubj>is of/prep>the_number bare.A/pobj>of {bare.A} ?/punct>is",
)
_COUNT_RELATED = (
    "how/advmod>many many/amod>bare.A bare.A/nsubj>are are/ROOT AB>are B/pobj>AB ?/punct>are",
    "what_number/nsubj>are of/prep>what_number bare.A/pobj>of are/ROOT AB>are B/pobj>AB ?/punct>are",
    "how/advmod>many many/amod>bare.A bare.A/attr>exist exist/ROOT there/expl>exist AB>exist B/pobj>AB ?/punct>exist",
    "how/advmod>many many/amod>bare.A bare.A/dobj>see can/aux>see you/nsubj>see see/ROOT AB>see B/pobj>AB ?/punct>see",
)
_COUNT_EITHER = (
    "how/advmod>many many/amod>bare.A bare.A/attr>exist and/cc>bare.A bare.B/conj>bare.A exist/ROOT there/expl>exist "
    "?/punct>exist",
    "how/advmod>many many/amod>bare.A bare.A/dobj>see or/cc>bare.A bare.B/conj>bare.A can/aux>see you/nsubj>see see/ROOT "
    "?/punct>see",
    "what/attr>is is/ROOT the_total_number/nsubj>is of/prep>the_total_number bare.A/pobj>of and/cc>bare.A "
    "bare.B/conj>bare.A ?/punct>is",
)
QUERY_TEXTS = {
    "color": (
        "what_color/attr>is is/ROOT A/nsubj>is {A} ?/punct>is",
        "what/attr>is is/ROOT the_color/nsubj>is of/prep>the_color A/pobj>of {A} ?/punct>is",
        "which_color/dobj>have does/aux>have A/nsubj>have {A} have/ROOT ?/punct>have",
    ),
    "size": (
        "how/advmod>big big/acomp>is is/ROOT A/nsubj>is {A} ?/punct>is",
        "what_size/attr>is is/ROOT A/nsubj>is {A} ?/punct>is",
        "what/attr>is is/ROOT the_size/nsubj>is of/prep>the_size A/pobj>of {A} ?/punct>is",
    ),
    "material": (
        "what_material/attr>is is/ROOT A/nsubj>is {A} ?/punct>is",
        "what/pobj>of is/auxpass>made A/nsubjpass>made {A} made/ROOT of/prep>made ?/punct>made",
        "what/attr>is is/ROOT the_material/nsubj>is of/prep>the_material A/pobj>of {A} ?/punct>is",
    ),
    "kind": (
        "what/attr>is is/ROOT A/nsubj>is {A} ?/punct>is",
        "what_kind/attr>is of/prep>what_kind thing/pobj>of is/ROOT A/nsubj>is {A} ?/punct>is",
        "what/oprd>call do/aux>call you/nsubj>call call/ROOT A/dobj>call {A} ?/punct>call",
    ),
}
"""Ways to ask for an attribute of A, with a gap behind it."""
_WHAT_IS_WHERE = (
    "what/nsubj>is is/ROOT AB>is B/pobj>AB ?/punct>is",
    "what_thing/nsubj>is is/ROOT AB>is B/pobj>AB ?/punct>is",
    "what_kind/nsubj>is of/prep>what_kind thing/pobj>of is/ROOT AB>is B/pobj>AB ?/punct>is",
    "what/dobj>see can/aux>see you/nsubj>see see/ROOT AB>see B/pobj>AB ?/punct>see",
)


def _equal(attribute: str) -> tuple[str, ...]:
    same = f"the_same_{attribute}"
    return (
        f"does/aux>have A/nsubj>have {{A}} have/ROOT {same}/dobj>have as/prep>{same} B/pobj>as ?/punct>have",
        f"is/ROOT A/nsubj>is {{A}} {same}/attr>is as/prep>{same} B/pobj>as ?/punct>is",
        f"do/aux>have A/nsubj>have {{A}} and/cc>A B/conj>A have/ROOT {same}/dobj>have ?/punct>have",
        f"are/ROOT A/nsubj>are {{A}} and/cc>A B/conj>A {same}/attr>are ?/punct>are",
    )


_NUMBERS = "is/ROOT the_number/nsubj>is of/prep>the_number bare.A/pobj>of"
_OTHER_NUMBER = "the_number2/pobj>{0} of2/prep>the_number2 bare.B/pobj>of2 ?/punct>is"
_COMPARE = {
    "equal_integer": (
        "exist/ROOT there/expl>exist as_many/advmod>many many/amod>bare.A bare.A/attr>exist as/prep>bare.A "
        "bare.B/pobj>as ?/punct>exist",
        f"{_NUMBERS} equal/acomp>is to/prep>equal {_OTHER_NUMBER.format('to')}",
        f"{_NUMBERS} the_same/attr>is as/prep>the_same {_OTHER_NUMBER.format('as')}",
    ),
    "greater_than": (
        "exist/ROOT there/expl>exist more/amod>bare.A bare.A/attr>exist than/prep>bare.A bare.B/pobj>than ?/punct>exist",
        f"{_NUMBERS} greater/acomp>is than/prep>greater {_OTHER_NUMBER.format('than')}",
        "can/aux>see you/nsubj>see see/ROOT more/amod>bare.A bare.A/dobj>see than/prep>bare.A bare.B/pobj>than ?/punct>see",
    ),
    "less_than": (
        "exist/ROOT there/expl>exist fewer/amod>bare.A bare.A/attr>exist than/prep>bare.A bare.B/pobj>than "
        "?/punct>exist",
        f"{_NUMBERS} smaller/acomp>is than/prep>smaller {_OTHER_NUMBER.format('than')}",
        "can/aux>see you/nsubj>see see/ROOT fewer/amod>bare.A bare.A/dobj>see than/prep>bare.A bare.B/pobj>than "
        "?/punct>see",
    ),
}


def fill_gap(text: str, where: str) -> str:
    """Puts a relation at the gap {name} of a text; an empty `where` closes the gap."""
    before, _, rest = text.partition("{")
    name, _, after = rest.partition("}")
    return f"{before}{where.format(name)}{after}" if name else text


QUESTION_FRAMES: dict[str, tuple[Frame, ...]] = {
    "exist plain": number_frames("exist plain", *(fill_gap(text, "") for text in _EXIST)),
    "exist related": number_frames(
        "exist related",
        *(fill_gap(text, RELATED) for text in _EXIST),
        "exists/ROOT there/expl>exists a.A/attr>exists that/nsubj>is is/relcl>a.A AB>is B/pobj>AB ?/punct>exists",
    ),
    "exist chain": number_frames("exist chain", *(fill_gap(text, _CHAIN) for text in _EXIST[:3])),
    "exist both": number_frames("exist both", *(fill_gap(text, _BOTH) for text in _EXIST[:3])),
    "count plain": number_frames("count plain", *(fill_gap(text, "") for text in _COUNT)),
    "count related": number_frames("count related", *_COUNT_RELATED),
    "count either": number_frames("count either", *_COUNT_EITHER),
    **{
        f"query_{name} plain": number_frames(f"query_{name} plain", *(fill_gap(text, "") for text in texts))
        for name, texts in QUERY_TEXTS.items()
    },
    **{
        f"query_{name} related": number_frames(f"query_{name} related", *(fill_gap(text, RELATED) for text in texts))
        for name, texts in QUERY_TEXTS.items()
    },
    "query_kind where": number_frames("query_kind where", *_WHAT_IS_WHERE),
    **{
        f"equal_{name} plain": number_frames(f"equal_{name} plain", *(fill_gap(text, "") for text in _equal(name)))
        for name in ("color", "size", "material")
    },
    **{
        f"equal_{name} related": number_frames(
            f"equal_{name} related", *(fill_gap(text, "AC>A C/pobj>AC") for text in _equal(name)[:3])
        )
        for name in ("color", "size", "material")
    },
    **{f"{name} plain": number_frames(f"{name} plain", *texts) for name, texts in _COMPARE.items()},
}
"""Shape to its wordings."""
