"""Do the questions about rooms have the words, answers and causes that are promised?"""

import pytest

from lit_attn.data.questions import collate
from lit_attn.data.scenes.asked_words import ASKED_WORDS
from lit_attn.data.scenes.asking import ScenesQuestions, question_words
from lit_attn.data.scenes.questions import questions
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.data.scenes.thinning import thinned
from lit_attn.errors import UserError


def test_the_listed_words_are_those_that_are_asked():
    """If the grammar has changed: the list is what `asked` is for 2000 scenes."""
    asked = {word for i in range(400) for one in questions(make_scene(0, "train", i)) for word in question_words(one)}
    assert tuple(sorted(asked)) == ASKED_WORDS


def test_other_worlds_and_splits_have_no_other_words():
    for seed, split in ((3, "val"), (8, "compose")):
        for i in range(40):
            for one in questions(make_scene(seed, split, i)):
                assert set(question_words(one)) <= set(ASKED_WORDS)


def test_a_batch_holds_questions_answers_and_causes():
    data = ScenesQuestions(val_scenes=5, questions_per_scene=5, side=7, grid_dim=11)
    batch = collate([data.dataset("val")[i] for i in range(5)])
    assert batch.grid.shape == (5, 11, 7, 7)
    assert batch.causes is not None
    assert batch.causes.shape == (len(batch), 49)
    assert batch.spokesmen is not None
    assert not (batch.spokesmen & ~batch.causes).any()
    for i, owner in enumerate(batch.owner.tolist()):
        asked = questions(make_scene(0, "val", owner), 5)[i - batch.owner.tolist().index(owner)]
        assert data.answers[int(batch.answer[i])] == asked.answer
        assert batch.kind[i] == asked.kind
        words = [data.vocabulary.words[j] for j in batch.tokens[i][batch.token_mask[i]].tolist()]
        assert tuple(words) == batch.words[i] == question_words(asked)
        assert int(batch.spokesmen[i].sum()) == len(set(asked.causes)), "a cell for each thing"


def test_thinned_rooms_keep_some_things_and_what_they_rest_on():
    sizes = set()
    for i in range(60):
        whole = make_scene(0, "train", i)
        thin = thinned(whole, 3)
        assert thin == thinned(make_scene(0, "train", i), 3)
        sizes.add(len(thin.things))
        assert 2 <= len(thin.things) <= len(whole.things)
        boxes = {thing.box: thing for thing in whole.things}
        for thing in thin.things:
            original = boxes[thing.box]
            assert (thing.kind, thing.color, thing.word) == (original.kind, original.color, original.word)
            if original.support is None:
                assert thing.support is None
            else:
                assert thin.things[thing.support].box == whole.things[original.support].box
        wanted = [thing for thing in thin.things if not any(other.support == k for k, other in enumerate(thin.things))]
        assert wanted
    assert {2, 3} <= sizes
    with pytest.raises(ValueError, match="most=1"):
        thinned(make_scene(0, "train", 0), 1)


def test_training_may_thin_rooms_and_prefer_kinds_but_validation_may_not():
    kinds = ["query_attribute", "query_attribute", "count"]
    data = ScenesQuestions(
        train_scenes=20, val_scenes=3, questions_per_scene=6, train_kinds=kinds, thinned_share=0.1, side=5, grid_dim=8
    )
    asked = [question.kind for i in range(10, 20) for question in data.dataset("train")[i][1]]
    assert set(asked) == {"query_attribute", "count"}
    assert asked.count("query_attribute") > asked.count("count")
    plain = ScenesQuestions(val_scenes=3, questions_per_scene=6, side=5, grid_dim=8)
    for i in range(3):
        (one, mine), (other, theirs) = data.dataset("val")[i], plain.dataset("val")[i]
        assert (one.grid == other.grid).all()
        assert [question.words for question in mine] == [question.words for question in theirs]
    thin, whole = data.dataset("train")[3][0].grid, plain.dataset("train")[3][0].grid
    assert (thin != whole).any()
    assert (data.dataset("train")[13][0].grid == plain.dataset("train")[13][0].grid).all()


def test_bad_settings_of_training_are_named():
    with pytest.raises(UserError, match="data.train_kinds names 'cont'. Did you mean 'count'"):
        ScenesQuestions(train_kinds=["cont"])
    with pytest.raises(UserError, match="data.thinned_to is 1"):
        ScenesQuestions(thinned_to=1)
