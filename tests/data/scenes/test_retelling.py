"""Does the grammar annotate what somebody else wrote as the teller would have?"""

import pytest

from lit_attn.data.scenes.captioning import ScenesCaptions, ScenesParagraphs
from lit_attn.data.scenes.meaning import SceneFacts
from lit_attn.data.scenes.retelling import annotated
from lit_attn.data.scenes.rooms import make_scene


@pytest.mark.parametrize("kind", [ScenesCaptions, ScenesParagraphs])
def test_gold_texts_get_their_gold_annotation_back(kind):
    for i in range(41):
        scene = make_scene(3, "val", i)
        facts = SceneFacts(scene)
        for gold in kind.texts(scene):
            found = annotated(gold.text, facts)
            assert found is not None
            for name in ("tokens", "lemmas", "pos", "heads", "deps", "triples"):
                assert getattr(found, name) == getattr(gold, name), (name, gold.text)
            for own, phrase in zip(found.phrases, gold.phrases, strict=True):
                assert (own.span, own.head) == (phrase.span, phrase.head)
                words = gold.tokens[slice(*phrase.span)]
                assert set(phrase.objects) <= set(own.objects) or words == ("the", "other", "one")


def test_false_texts_have_grammar_and_name_nothing_where_nothing_fits():
    """A cup in place of something else, in rooms without any."""
    understood = 0
    for i in range(40):
        scene = make_scene(0, "val", i)
        if any(thing.kind == "cup" for thing in scene.things):
            continue
        for gold in ScenesCaptions.texts(scene):
            for n, phrase in enumerate(gold.phrases):
                words = [*gold.tokens[: phrase.head], "cup", *gold.tokens[phrase.head + 1 :]]
                found = annotated(words, SceneFacts(scene)) if phrase.objects else None
                if found is not None and gold.pos[phrase.head - 1] in ("DET", "ADJ"):
                    understood += 1
                    assert found.tokens == tuple(words)
                    assert (found.pos, found.heads) == (gold.pos, gold.heads)
                    assert found.phrases[n].objects == ()
    assert understood > 20


def test_a_text_that_breaks_off_keeps_its_words_and_others_are_not_understood():
    scene = make_scene(0, "val", 0)
    facts = SceneFacts(scene)
    gold = ScenesCaptions.texts(scene)[0]
    cut = annotated(gold.tokens[:-1], facts)
    assert cut is not None
    assert cut.tokens == gold.tokens[:-1]
    assert cut.heads == gold.heads[:-1]
    assert annotated("", facts) is None
    assert annotated("colorless green ideas sleep furiously .", facts) is None
    assert annotated("😀 naïve .", facts) is None
    assert annotated(" ".join(["the"] * 90), facts) is None
