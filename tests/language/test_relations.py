"""Are relations, phrases, triples and pieces those that a person would name?"""

import pytest
import torch

from lit_attn.data.scenes.captions import captions
from lit_attn.data.scenes.paragraphs import paragraph
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.errors import UserError
from lit_attn.language.labels import papers_tree, style_of
from lit_attn.language.phrases import PLACE_PHRASES, noun_phrases
from lit_attn.language.pieces import NO_WORD, word_offsets, words_of_pieces
from lit_attn.language.relations import relation_pairs
from lit_attn.language.spatial import spatial_triples
from lit_attn.language.trees import check_heads, reach
from lit_attn.ops.pieces import word_attention
from lit_attn.types import Annotation


def annotation(text: str) -> Annotation:
    """From "word/POS/label>head …", heads counted from 1, the root's head 0."""
    rows = [piece.split("/") for piece in text.split()]
    edges = [row[2].split(">") for row in rows]
    heads = tuple(i if head == "0" else int(head) - 1 for i, (_, head) in enumerate(edges))
    words = tuple(row[0] for row in rows)
    return Annotation(words, words, tuple(row[1] for row in rows), heads, tuple(label for label, _ in edges))


def said(text: Annotation, spans):
    return [" ".join(text.tokens[slice(*span)]) for span in spans]


CURTAINS = annotation(
    "a/DET/det>2 window/NOUN/ROOT>0 with/ADP/prep>2 white/ADJ/amod>6 lace/NOUN/compound>6 curtains/NOUN/pobj>3 ./PUNCT/punct>2"
)


def test_phrases_nest_or_end_at_the_noun():
    nested, base = (noun_phrases(CURTAINS, kind) for kind in ("nested", "base"))
    assert said(CURTAINS, [p.span for p in nested]) == ["a window with white lace curtains", "white lace curtains"]
    assert said(CURTAINS, [p.span for p in base]) == ["a window", "white lace curtains"]
    assert [p.head for p in nested] == [1, 5]


def test_the_two_rules_of_exclusion():
    text = annotation(
        "the/DET/det>3 left/ADJ/amod>3 wall/NOUN/nsubj>4 is/AUX/ROOT>0 on/ADP/prep>4 the/DET/det>7 left/NOUN/pobj>5"
    )
    by = {
        rule: said(text, [p.span for p in noun_phrases(text, "base", rule)])
        for rule in ("contains", "exact", "nothing")
    }
    assert by == {"contains": [], "exact": ["the left wall"], "nothing": ["the left wall", "the left"]}
    assert len(PLACE_PHRASES) == 29


def test_what_is_coordinated_is_no_part_of_a_phrase_unless_asked_for():
    text = annotation("a/DET/det>2 lamp/NOUN/ROOT>0 and/CCONJ/cc>2 a/DET/det>5 chair/NOUN/conj>2")
    assert said(text, [p.span for p in noun_phrases(text)]) == ["a lamp", "a chair"]
    assert said(text, [p.span for p in noun_phrases(text, conjuncts=True)]) == ["a lamp and a chair", "a chair"]


@pytest.mark.parametrize("text", ["", "look/VERB/ROOT>0", "😀/SYM/ROOT>0", "it/PRON/nsubj>2 is/AUX/ROOT>0"])
def test_text_without_nouns_has_no_phrase_no_triple_and_no_pair(text):
    bare = annotation(text)
    assert noun_phrases(bare) == spatial_triples(bare) == ()
    assert not any(relation_pairs(bare).values())


def test_pairs_point_from_the_later_word_to_the_earlier():
    pairs = relation_pairs(CURTAINS)
    assert pairs["det"] == [(1, 0)]
    assert pairs["compound"] == [(5, 4)]
    assert pairs["prep"] == pairs["prep_noun"] == [(2, 1)]
    assert pairs["pobj"] == [(5, 2)]
    assert pairs["prep_verb"] == pairs["nummod"] == []
    reverse = annotation("on/ADP/prep>3 it/PRON/pobj>1 sits/VERB/ROOT>0")
    assert relation_pairs(reverse)["prep"] == []


@pytest.mark.parametrize(
    ("universal", "papers"),
    [
        ("on/ADP/case>3 the/DET/det>3 bed/NOUN/obl>4 sits/VERB/root>0", "prep>4 det>3 pobj>1 ROOT>0"),
        (
            "box/NOUN/nsubj>5 is/AUX/cop>5 on/ADP/case>5 the/DET/det>5 bed/NOUN/root>0",
            "nsubj>2 ROOT>0 prep>2 det>5 pobj>3",
        ),
        ("it/PRON/nsubj>4 is/AUX/cop>4 very/ADV/advmod>4 red/ADJ/root>0", "nsubj>2 ROOT>0 advmod>4 acomp>2"),
        ("go/VERB/root>0 out/ADP/case>4 of/ADP/case>4 bed/NOUN/obl>1", "ROOT>0 prep>1 prep>2 pobj>3"),
        ("seen/VERB/root>0 by/ADP/case>3 men/NOUN/obl:agent>1", "ROOT>0 agent>1 pobj>2"),
        ("man/NOUN/nmod:poss>3 's/PART/case>1 hat/NOUN/root>0", "poss>3 case>1 ROOT>0"),
        ("Ada/PROPN/nsubj>3 Lovelace/PROPN/flat>1 wrote/VERB/root>0", "compound>2 nsubj>3 ROOT>0"),
        ("see/VERB/root>0 two/NUM/nummod>4 tea/NOUN/compound>4 cups/NOUN/obj>1", "ROOT>0 nummod>4 compound>4 dobj>1"),
        (
            "lies/VERB/root>0 on/ADP/case>3 bed/NOUN/obl>1 and/CCONJ/cc>6 under/ADP/case>6 lamp/NOUN/conj>3",
            "ROOT>0 prep>1 pobj>2 cc>6 conj>2 pobj>5",
        ),
        ("way/NOUN/root>0 of/SCONJ/mark>3 asking/VERB/acl>1", "ROOT>0 prep>1 pcomp>2"),
        (
            "it/PRON/nsubj>3 is/AUX/cop>3 full/ADJ/root>0 of/ADP/case>5 books/NOUN/obl>3",
            "nsubj>2 ROOT>0 acomp>2 prep>3 pobj>4",
        ),
        ("aunt/NOUN/nmod:desc>2 May/PROPN/root>0", "compound>2 ROOT>0"),
        ("because/ADP/case>3 of/ADP/fixed>1 rain/NOUN/obl>4 wet/ADJ/root>0", "prep>4 prep>1 pobj>2 ROOT>0"),
    ],
)
def test_universal_trees_become_the_papers_trees(universal, papers):
    text = annotation(universal)
    heads, labels = papers_tree(text.heads, text.deps, text.pos)
    assert [
        f"{label}>{0 if head == i else head + 1}" for i, (label, head) in enumerate(zip(labels, heads, strict=True))
    ] == (papers.split())
    check_heads(heads, "here")
    assert papers_tree(heads, labels, text.pos) == (heads, labels)


def test_the_style_of_labels_is_told_by_those_that_only_one_has():
    assert style_of(["det", "case", "obl", "root"]) == "universal"
    assert style_of(["det", "prep", "pobj", "ROOT"]) == "papers"


def test_a_tree_needs_a_root_and_heads_in_the_text():
    with pytest.raises(UserError, match="x: word 2 hangs on word 9, and there are 3 words"):
        check_heads([0, 8, 0], "x")
    with pytest.raises(UserError, match="x: word 1 hangs on itself through other words"):
        check_heads([1, 0, 2], "x")


def test_rules_find_gold_phrases_and_triples_of_scenes():
    right = wrong = missed = phrases = 0
    for i in range(23):
        scene = make_scene(0, "val", i)
        for told in (*captions(scene, 5), *paragraph(scene)):
            gold = told.annotation
            spans = {p.span for p in noun_phrases(gold, "base", "nothing")}
            assert {p.span for p in gold.phrases} <= spans, gold.text
            phrases += len(gold.phrases)
            named = {t for t in gold.triples if _is_explicit(gold, t)}
            found = set(spatial_triples(gold))
            right, wrong, missed = right + len(found & named), wrong + len(found - named), missed + len(named - found)
    assert phrases > 300
    assert right > 100
    assert missed <= 0.03 * right, (right, wrong, missed)


def _is_explicit(text: Annotation, triple) -> bool:
    """Whether the landmark follows its relation: else a pronoun does, which rules do not resolve."""
    return triple.landmark[0] == triple.relation[1]


@pytest.mark.parametrize(
    ("text", "triples"),
    [
        (
            "there/PRON/expl>2 is/VERB/ROOT>0 a/DET/det>4 lamp/NOUN/attr>2 on/ADP/prep>2 top/NOUN/pobj>5 "
            "of/ADP/prep>6 it/PRON/pobj>7",
            [],
        ),
        (
            "lamps/NOUN/nsubj>4 and/CCONJ/cc>1 rugs/NOUN/conj>1 are/AUX/ROOT>0 between/ADP/prep>4 beds/NOUN/pobj>5 "
            "and/CCONJ/cc>6 walls/NOUN/conj>6",
            ["lamps between beds", "lamps between walls", "rugs between beds", "rugs between walls"],
        ),
        (
            "rooms/NOUN/nsubj>2 have/VERB/ROOT>0 beds/NOUN/dobj>2 near/ADP/prep>2 windows/NOUN/pobj>4",
            ["beds near windows"],
        ),
        ("art/NOUN/ROOT>0 hanging/VERB/acl>1 over/ADP/prep>2 beds/NOUN/pobj>3", ["art over beds"]),
        ("art/NOUN/ROOT>0 on/ADP/prep>1 the/DET/det>5 left/ADJ/amod>5 wall/NOUN/pobj>2", ["art on the left wall"]),
        ("art/NOUN/ROOT>0 on/ADP/prep>1 the/DET/det>4 left/NOUN/pobj>2", []),
        ("hills/NOUN/ROOT>0 in/ADP/prep>1 the/DET/det>4 distance/NOUN/pobj>2", []),
        (
            "art/NOUN/ROOT>0 in/ADP/prep>1 one/NUM/nummod>4 corner/NOUN/pobj>2 of/ADP/prep>4 rooms/NOUN/pobj>5",
            ["art in one corner of rooms"],
        ),
        ("art/NOUN/ROOT>0 on/ADP/prep>1 the/DET/det>5 far/ADJ/amod>5 side/NOUN/pobj>2", []),
        (
            "cups/NOUN/ROOT>0 on/ADP/prep>1 the/DET/det>5 counter/NOUN/compound>5 top/NOUN/pobj>2",
            ["cups on the counter top"],
        ),
        (
            "lamps/NOUN/ROOT>0 in/ADP/prep>1 the/DET/det>4 corner/NOUN/pobj>2 by/ADP/prep>4 beds/NOUN/pobj>5",
            ["lamps by beds"],
        ),
        (
            "fans/NOUN/ROOT>0 in/ADP/prep>1 the/DET/det>4 room/NOUN/pobj>2 over/ADP/prep>4 beds/NOUN/pobj>5",
            ["fans in the room", "fans over beds"],
        ),
        (
            "a/DET/det>2 vase/NOUN/ROOT>0 of/ADP/prep>2 flowers/NOUN/pobj>3 on/ADP/prep>4 beds/NOUN/pobj>5",
            ["a vase on beds"],
        ),
        ("there's/PRON/expl>2 lamps/NOUN/ROOT>0 on/ADP/prep>2 beds/NOUN/pobj>3", ["lamps on beds"]),
        ("walls/NOUN/ROOT>0 white/ADJ/amod>1 in/ADP/prep>1 color/NOUN/pobj>3", []),
        ("men/NOUN/nsubj>2 look/VERB/ROOT>0 at/ADP/prep>2 art/NOUN/pobj>3", []),
        ("men/NOUN/nsubj>2 sit/VERB/ROOT>0 at/ADP/prep>2 tables/NOUN/pobj>3", ["men at tables"]),
        ("floors/NOUN/nsubjpass>3 are/AUX/auxpass>3 cover/VERB/ROOT>0 in/ADP/prep>3 rugs/NOUN/pobj>4", []),
        ("frames/NOUN/ROOT>0 in/ADP/prep>1 rooms/NOUN/pobj>2", ["frames in rooms"]),
        ("beds/NOUN/nsubjpass>3 are/AUX/auxpass>3 parted/VERB/ROOT>0 by/ADP/agent>3 shelves/NOUN/pobj>4", []),
        (
            "art/NOUN/ROOT>0 over/ADP/prep>1 the/DET/det>4 bed/NOUN/pobj>2 and/CCONJ/cc>4 a/DET/det>7 plant/NOUN/conj>4",
            ["art over the bed"],
        ),
        (
            "art/NOUN/ROOT>0 over/ADP/prep>1 the/DET/det>4 bed/NOUN/pobj>2 and/CCONJ/cc>4 sofa/NOUN/conj>4",
            ["art over the bed", "art over sofa"],
        ),
        (
            "boys/NOUN/nsubj>2 hold/VERB/ROOT>0 cups/NOUN/dobj>2 near/ADP/prep>2 beds/NOUN/pobj>4",
            ["cups near beds"],
        ),
        ("boys/NOUN/nsubj>2 see/VERB/ROOT>0 something/PRON/dobj>2 on/ADP/prep>2 beds/NOUN/pobj>4", []),
        (
            "floors/NOUN/nsubj>2 are/AUX/ROOT>0 clear/ADJ/acomp>2 and/CCONJ/cc>2 all/PRON/nsubj>6 lies/VERB/conj>2 "
            "on/ADP/prep>6 shelves/NOUN/pobj>7",
            [],
        ),
        (
            "beds/NOUN/nsubj>2 are/AUX/ROOT>0 red/ADJ/acomp>2 and/CCONJ/cc>2 they/PRON/nsubj>6 stand/VERB/conj>2 "
            "by/ADP/prep>6 walls/NOUN/pobj>7",
            ["beds by walls"],
        ),
    ],
)
def test_spatial_triples_by_rule(text, triples):
    read = annotation(text)
    found = [" ".join(said(read, (t.target, t.relation, t.landmark))) for t in spatial_triples(read)]
    assert found == triples


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("art/NOUN/ROOT>0 in/ADP/prep>1 a/DET/det>4 corner/NOUN/pobj>2 of/ADP/prep>4 rooms/NOUN/pobj>5", "region"),
        (
            "art/NOUN/ROOT>0 in/ADP/prep>1 left/ADJ/amod>4 corner/NOUN/pobj>2 of/ADP/prep>4 rooms/NOUN/pobj>5",
            "direction",
        ),
        ("art/NOUN/ROOT>0 near/ADP/prep>1 the/DET/det>4 end/NOUN/pobj>2 of/ADP/prep>4 rooms/NOUN/pobj>5", "distance"),
        ("art/NOUN/ROOT>0 behind/ADP/prep>1 rooms/NOUN/pobj>2", "direction"),
    ],
)
def test_the_type_of_a_relation(text, kind):
    assert [triple.kind for triple in spatial_triples(annotation(text))] == [kind]


def test_pieces_are_aligned_by_characters():
    words = word_offsets(["naïve", "😀", "dogs"])
    assert words == [(0, 5), (6, 7), (8, 12)]
    pieces = [(0, 0), (0, 2), (2, 5), (5, 7), (6, 7), (7, 11), (11, 12)]
    assert words_of_pieces(pieces, words) == [NO_WORD, 0, 0, 1, 1, 2, 2]
    assert words_of_pieces([(0, 3)], []) == [NO_WORD]
    assert words_of_pieces([(0, 1), (1, 2), (2, 2), (2, 4), (0, 0)], word_offsets(["a", "sofa"])) == [
        0,
        1,
        1,
        1,
        NO_WORD,
    ]


def test_attention_between_words_equals_a_slow_loop_and_rows_keep_their_sums():
    torch.manual_seed(0)
    b, h, q, k, w, v = 2, 3, 7, 11, 5, 13
    weights = torch.rand(b, h, q, k, dtype=torch.float64).softmax(-1)
    of, to = torch.randint(-1, w, (b, q)), torch.randint(0, v, (b, k))
    slow = torch.zeros(b, h, w, v, dtype=torch.float64)
    for i in range(b):
        for j in range(h):
            for row in range(w):
                pieces = [p for p in range(q) if of[i, p] == row]
                for column in range(v):
                    for p in pieces:
                        total = sum(float(weights[i, j, p, c]) for c in range(k) if to[i, c] == column)
                        slow[i, j, row, column] += total / len(pieces)
    fast = word_attention(weights, of, to, w, v)
    torch.testing.assert_close(fast, slow, atol=1e-12, rtol=0)
    present = torch.stack([(of == row).any(1) for row in range(w)], 1)
    torch.testing.assert_close(fast.sum(-1), present[:, None].double().expand(b, h, w), atol=1e-12, rtol=0)


def test_reach_is_that_of_spacy():
    spacy = pytest.importorskip("spacy")
    doc = spacy.tokens.Doc(
        spacy.blank("en").vocab, words=list(CURTAINS.tokens), heads=list(CURTAINS.heads), deps=list(CURTAINS.deps)
    )
    assert reach(CURTAINS) == [(t.left_edge.i, t.right_edge.i + 1) for t in doc]
