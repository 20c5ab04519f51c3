"""Do the questions about rooms have the words, answers and causes that are promised?"""

from lit_attn.data.questions import collate
from lit_attn.data.scenes.asked_words import ASKED_WORDS
from lit_attn.data.scenes.asking import ScenesQuestions, question_words
from lit_attn.data.scenes.questions import questions
from lit_attn.data.scenes.rooms import make_scene


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
    for i, owner in enumerate(batch.owner.tolist()):
        asked = questions(make_scene(0, "val", owner), 5)[i - batch.owner.tolist().index(owner)]
        assert data.answers[int(batch.answer[i])] == asked.answer
        assert batch.kind[i] == asked.kind
        words = [data.vocabulary.words[j] for j in batch.tokens[i][batch.token_mask[i]].tolist()]
        assert tuple(words) == batch.words[i] == question_words(asked)
