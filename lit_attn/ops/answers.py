"""When is an answer right? TextVQA's accuracy and ST-VQA's ANLS, as the EvalAI servers and MMF count them.

Accuracy compares normalised texts (`normalize`) with those of ten people: an answer is right as far as three others gave
it, averaged over leaving out each person once. ANLS (Biten et al. 2019) forgives misspellings: 1 minus the edit distance over
the longer length, 0 below one half, the best over the answers. Both lie in [0, 1], higher is better.

Two habits of the original are kept because published numbers rest on them: only the first 32 periods of a text are removed,
and commas are gone before the rule about commas between digits could fire, so there is no such rule here. Two empty texts
have an ANLS of 1, where the original divides by zero.
"""

import re
from collections import Counter
from collections.abc import Sequence

from rapidfuzz.distance import Levenshtein

AGREEING = 3
"""People who must have given an answer, besides the one left out, for it to be right."""
ANLS_THRESHOLD = 0.5

_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_PERIOD = re.compile(r"\.(?!\d)")
_PERIODS_REMOVED = 32
_NUMBERS = {"none": "0"} | {
    word: str(i)
    for i, word in enumerate(("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"))
}
_ARTICLES = frozenset(("a", "an", "the"))
_CONTRACTED = (
    "'ow's'at", "'twas", "ain't", "aren't", "can't", "could've", "couldn't", "couldn't've", "didn't", "doesn't",
    "don't", "hadn't", "hadn't've", "hasn't", "haven't", "he'd", "he'd've", "he's", "how'd", "how'll", "how's", "isn't",
    "it'd", "it'd've", "it'll", "ma'am", "might've", "mightn't", "mightn't've", "must've", "mustn't", "needn't",
    "not've", "o'clock", "oughtn't", "shan't", "she'd've", "should've", "shouldn't", "shouldn't've", "somebody'd've",
    "somebody'll", "somebody's", "someone'd", "someone'd've", "someone'll", "someone's", "something'd",
    "something'd've", "something'll", "that's", "there'd", "there'd've", "there're", "there's", "they'd", "they'd've",
    "they'll", "they're", "they've", "wasn't", "we'd've", "we've", "weren't", "what'll", "what're", "what's", "what've",
    "when's", "where'd", "where's", "where've", "who'd", "who'd've", "who'll", "who's", "who've", "why'll", "why're",
    "why's", "won't", "would've", "wouldn't", "wouldn't've", "y'all", "y'all'd've", "y'all'll", "you'd", "you'd've",
    "you'll", "you're", "you've",
)  # fmt: skip
_CONTRACTIONS = {
    word[:place] + word[place + 1 :]: word for word in _CONTRACTED for place, letter in enumerate(word) if letter == "'"
} | {"somebody'd": "somebodyd"}
"""A word that lacks one of its apostrophes, and the word. The last is a slip of the original."""


def normalize(text: str) -> str:
    """Lower case without punctuation and articles, numbers up to ten as digits, missing apostrophes put in."""
    plain = clean(text).replace("\n", " ").replace("\t", " ").strip()
    bare = plain
    for mark in _PUNCTUATION:
        touches_blank = f"{mark} " in plain or f" {mark}" in plain
        bare = bare.replace(mark, "" if touches_blank else " ")
    bare = _PERIOD.sub("", bare, count=_PERIODS_REMOVED)
    words = [_NUMBERS.get(word, word) for word in bare.lower().split()]
    return " ".join(_CONTRACTIONS.get(word, word) for word in words if word not in _ARTICLES)


def clean(text: str) -> str:
    """As M4C reads answers and OCR tokens: lower case, no comma or question mark, `'s` a word of its own."""
    return text.lower().replace(",", "").replace("?", "").replace("'s", " 's").strip()


def soft_scores(answers: Sequence[str]) -> dict[str, float]:
    """How right each different answer is. Equal texts are the same answer; nothing is normalised.

    The mean, over leaving out each person, of min(1, others who gave it / 3). Of fewer than four people, all others must
    have given it, and an only answer is right.
    """
    people = len(answers)
    if people == 1:
        return {answers[0]: 1.0}
    needed = min(AGREEING, people - 1)

    def score(given: int) -> float:
        own, others = min(1.0, (given - 1) / needed), min(1.0, given / needed)
        return (given * own + (people - given) * others) / people

    return {answer: score(given) for answer, given in Counter(answers).items()}


def accuracy(prediction: str, answers: Sequence[str]) -> float:
    """The soft score of a prediction among people's answers, all normalised; 0 if nobody gave it."""
    _check(answers)
    return soft_scores([normalize(answer) for answer in answers]).get(normalize(prediction), 0.0)


def anls(prediction: str, answers: Sequence[str]) -> float:
    """Average normalised Levenshtein similarity: that of the nearest answer, in lower case without outer blanks."""
    _check(answers)
    return max(_similarity(prediction.lower().strip(), answer.lower().strip()) for answer in answers)


def _similarity(one: str, other: str) -> float:
    longest = max(len(one), len(other))
    if longest == 0:
        return 1.0
    similarity = 1 - Levenshtein.distance(one, other) / longest
    return similarity if similarity >= ANLS_THRESHOLD else 0.0


def _check(answers: Sequence[str]) -> None:
    if not answers:
        raise ValueError("There are no answers to compare with: leave questions without answers out.")
