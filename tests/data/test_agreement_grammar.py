"""Is the subject's noun the only word that tells the number of the verb?"""

from collections import Counter
from itertools import combinations

import pytest

from lit_attn.data.agreement_grammar import NOUNS, AgreementGrammar, grammar_words, make_beginning
from lit_attn.errors import UserError

NUMBER = {word: bool(number) for pair in NOUNS for number, word in enumerate(pair)}


def some(split="train", count=300, seed=0):
    return [make_beginning(seed, split, i) for i in range(count)]


def test_a_sentence_depends_on_seed_split_and_index_alone():
    assert some()[250] == make_beginning(0, "train", 250)
    assert some() != some(seed=1)
    texts = [{made.words for made in some(split)} for split in ("train", "val", "test")]
    assert all(one.isdisjoint(other) for one, other in combinations(texts, 2))


def test_the_subject_says_the_number_and_attractors_contradict_it():
    for made in some():
        assert NUMBER[made.words[made.subject]] == made.plural
        assert not any(word in NUMBER for word in made.words[: made.subject])
        between = [NUMBER[word] for word in made.words[made.subject + 1 :] if word in NUMBER]
        assert sum(number != made.plural for number in between) == made.attractors


def test_no_other_word_tells_the_number():
    """With either number every other word occurs about equally often, in the same places relative to the subject."""
    counts = Counter(
        (made.plural, word)
        for made in some(count=4000)
        for i, word in enumerate(made.words)
        if i != made.subject and word not in NUMBER
    )
    for word in {word for _, word in counts}:
        one, other = counts[False, word], counts[True, word]
        assert abs(one - other) < 5 * (one + other) ** 0.5, word
    attractors = Counter((made.plural, made.attractors) for made in some(count=4000))
    assert all(300 < count < 500 for count in attractors.values())


def test_the_last_noun_is_no_shortcut():
    last = [NUMBER[[w for w in made.words if w in NUMBER][-1]] == made.plural for made in some(count=2000)]
    assert 0.2 < sum(last) / len(last) < 0.6


def test_samples_know_their_cause():
    data = AgreementGrammar(train_sentences=11, val_sentences=7, test_sentences=5, max_attractors=2)
    batch = data.collate([data.dataset("val")[i] for i in range(7)])
    assert batch.causes is not None
    assert batch.causes.sum(1).tolist() == [1] * 7
    for row, words in enumerate(batch.words):
        cause = words[int(batch.causes[row].int().argmax())]
        assert NUMBER[cause] == bool(batch.answer[row])
    assert not (batch.tokens == 1).any(), "the grammar knows its own words"
    assert set(batch.kind) <= set(data.kinds)
    assert len(grammar_words()) == len(set(grammar_words().words))
    assert data.collate([]).causes is None


def test_mistakes():
    with pytest.raises(UserError, match="max_attractors must be at least 0"):
        AgreementGrammar(max_attractors=-1)
    with pytest.raises(UserError, match="val_sentences must be at least 1"):
        AgreementGrammar(val_sentences=0)
