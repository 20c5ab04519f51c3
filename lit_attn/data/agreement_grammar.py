"""What does a sentence look like whose verb depends on one known word? A small grammar with attractors.

The words before a verb: perhaps an opening phrase, a subject, and phrases that hang on the subject, each with a noun. Nothing
but the subject's noun tells the number of the verb: determiners fit both numbers, adjectives do not change, and verbs inside of
relative clauses are in the past. Nouns between the subject and the verb that have the other number are attractors. Sentence i
of a split depends on (seed, split, i) alone; no text is in two splits.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from random import Random

from torch.utils.data import Dataset

from lit_attn.data.labelled_sentences import LabelledSentence, SentenceList, WordedSentenceData, between_marks
from lit_attn.data.question_words import SPECIALS, QuestionWords
from lit_attn.data.scenes.rooms import digest
from lit_attn.errors import UserError

ANSWERS = ("singular", "plural")
MOST_ATTRACTORS = 4
NOUNS = (
    ("author", "authors"), ("baker", "bakers"), ("bird", "birds"), ("boat", "boats"), ("boy", "boys"), ("bridge", "bridges"),
    ("child", "children"), ("city", "cities"), ("clerk", "clerks"), ("dog", "dogs"), ("door", "doors"), ("engine", "engines"),
    ("farmer", "farmers"), ("field", "fields"), ("friend", "friends"), ("girl", "girls"), ("goose", "geese"),
    ("guard", "guards"), ("horse", "horses"), ("house", "houses"), ("key", "keys"), ("knife", "knives"), ("letter", "letters"),
    ("lady", "ladies"), ("man", "men"), ("mouse", "mice"), ("painter", "painters"), ("pilot", "pilots"), ("road", "roads"),
    ("shelf", "shelves"), ("song", "songs"), ("stone", "stones"), ("teacher", "teachers"), ("tower", "towers"),
    ("train", "trains"), ("tree", "trees"), ("truck", "trucks"), ("window", "windows"), ("wolf", "wolves"), ("woman", "women"),
)  # fmt: skip
"""Singular and plural; some plurals do not end in s."""
DETERMINERS = ("the", "my", "your", "our", "their", "no")
ADJECTIVES = ("old", "young", "small", "red", "quiet", "famous", "broken", "local", "heavy", "strange")
PREPOSITIONS = ("near", "behind", "beside", "under", "above", "from", "with", "opposite", "below", "without")
PAST_VERBS = ("saw", "knew", "followed", "painted", "found", "heard", "described", "watched", "missed", "praised")
OPENINGS = (
    ("yesterday",), ("in", "fact"), ("of", "course"), ("for", "now"), ("at", "noon"), ("after", "lunch"), ("on", "paper"),
    ("before", "dawn"),
)  # fmt: skip
ADVERBS = ("often", "never", "still", "always", "rarely")
SPLITS = ("train", "val", "test")


@lru_cache(maxsize=1)
def grammar_words() -> QuestionWords:
    """All words of the grammar, sorted."""
    nouns = {word for pair in NOUNS for word in pair}
    openings = {word for words in OPENINGS for word in words} | {",", "that"}
    return QuestionWords(
        SPECIALS + tuple(sorted(nouns | openings | {*DETERMINERS, *ADJECTIVES, *PREPOSITIONS, *PAST_VERBS, *ADVERBS}))
    )


@dataclass(frozen=True)
class Beginning:
    """A sentence up to its verb."""

    words: tuple[str, ...]
    subject: int
    """Position of the subject's noun."""
    plural: bool
    attractors: int


def make_beginning(seed: int, split: str, index: int, max_attractors: int = MOST_ATTRACTORS) -> Beginning:
    """Sentence `index` of a split. A text belongs to the split that its own digest says; others are drawn again."""
    if split not in SPLITS:
        raise ValueError(f"No split is called {split!r}. Known splits: {', '.join(SPLITS)}.")
    chance = Random(digest("agreement", seed, split, index))
    while True:
        found = _draw(chance, max_attractors)
        if _home(found.words) == split:
            return found


def _home(words: tuple[str, ...]) -> str:
    """Four fifths of all texts are for training, a tenth each for validation and testing."""
    place = digest("home", *words) % 10
    return "val" if place == 8 else "test" if place == 9 else "train"


def _draw(chance: Random, max_attractors: int) -> Beginning:
    plural = chance.random() < 0.5
    attractors = chance.randint(0, max_attractors)
    alike = chance.choice((0, 0, 1))  # a noun between that has the subject's own number
    words: list[str] = [*chance.choice(OPENINGS), ","] if chance.random() < 0.3 else []
    words += _noun_phrase(chance, plural)
    subject = len(words) - 1
    numbers = [not plural] * attractors + [plural] * alike
    chance.shuffle(numbers)
    for number in numbers:
        if chance.random() < 0.25:
            words += ["that", *_noun_phrase(chance, number), chance.choice(PAST_VERBS)]
        else:
            words += [chance.choice(PREPOSITIONS), *_noun_phrase(chance, number)]
    if chance.random() < 0.2:
        words.append(chance.choice(ADVERBS))
    return Beginning(tuple(words), subject, plural, attractors)


def _noun_phrase(chance: Random, plural: bool) -> list[str]:
    described = [chance.choice(ADJECTIVES)] if chance.random() < 0.3 else []
    return [chance.choice(DETERMINERS), *described, chance.choice(NOUNS)[plural]]


class GrammarSentences(Dataset[LabelledSentence]):
    """The first `size` sentences of a split."""

    def __init__(self, data: "AgreementGrammar", split: str, size: int) -> None:
        self.data, self.split, self.size = data, split, size
        self._sample = lru_cache(65536)(self._make)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> LabelledSentence:
        return self._sample(index)

    def _make(self, index: int) -> LabelledSentence:
        made = make_beginning(self.data.seed, self.split, index, self.data.max_attractors)
        return LabelledSentence(
            index,
            f"{self.split}-{index}",
            *between_marks(made.words, self.data.vocabulary),
            int(made.plural),
            f"attractors_{made.attractors}",
            (made.subject + 1,),
        )


class AgreementGrammar(WordedSentenceData):
    """Sentences of the grammar.

    Args:
        train_sentences, val_sentences, test_sentences: How many of each split; sentence i is always the same.
        max_attractors: 0 to so many, all equally often.
        sentences: Your own, for `predict`.
        seed: Of the sentences and of the order of training.
    """

    def __init__(
        self,
        train_sentences: int = 12000,
        val_sentences: int = 1009,
        test_sentences: int = 2003,
        max_attractors: int = MOST_ATTRACTORS,
        sentences: str | None = None,
        batch_size: int = 64,
        eval_batch_size: int = 128,
        num_workers: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(sentences, batch_size, eval_batch_size, num_workers, seed)
        if max_attractors < 0:
            raise UserError(f"data.max_attractors must be at least 0, got {max_attractors}.")
        self.sizes = {"train": train_sentences, "val": val_sentences, "test": test_sentences}
        for split, size in self.sizes.items():
            if size < 1:
                raise UserError(f"data.{split}_sentences must be at least 1, got {size}.")
        self.max_attractors = max_attractors
        self._datasets: dict[str, GrammarSentences] = {}

    @cached_property
    def vocabulary(self) -> QuestionWords:
        return grammar_words()

    @property
    def answers(self) -> tuple[str, ...]:
        return ANSWERS

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(f"attractors_{k}" for k in range(self.max_attractors + 1))

    def dataset(self, stage: str) -> GrammarSentences | SentenceList:
        if stage == "predict" and self.sentences is not None:
            return self.own_sentences()
        split = stage if stage in ("train", "val") else "test"
        if split not in self._datasets:
            self._datasets[split] = GrammarSentences(self, split, self.sizes[split])
        return self._datasets[split]
