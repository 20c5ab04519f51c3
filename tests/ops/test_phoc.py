"""Are the letters of a word where the original finds them, to the bit?"""

from fractions import Fraction

import numpy as np
import pytest

from lit_attn.ops.phoc import DIM, LETTERS, PAIRS, phoc


def slow_and_exact(word: str) -> np.ndarray:
    """With fractions, letter by letter; equals the original unless an overlap is exactly one half."""
    kept = [letter for letter in word.lower() if letter in LETTERS]
    bits: list[int] = []

    def share(place: int, width: int, part: int, level: int) -> Fraction:
        start, end = Fraction(place, len(kept)), Fraction(place + width, len(kept))
        overlap = min(end, Fraction(part + 1, level)) - max(start, Fraction(part, level))
        return max(overlap, Fraction(0)) / (end - start)

    for level in (2, 3, 4, 5):
        for part in range(level):
            inside = {kept[i] for i in range(len(kept)) if share(i, 1, part, level) >= Fraction(1, 2)}
            bits += [letter in inside for letter in LETTERS]
    for part in range(2):
        pairs = {kept[i] + kept[i + 1] for i in range(len(kept) - 1) if share(i, 2, part, 2) >= Fraction(1, 2)}
        bits += [pair in pairs for pair in PAIRS]
    return np.array(bits, np.float32)


@pytest.mark.parametrize("group", ["", "ladder_"])
def test_all_golden_words(golden, group):
    arrays = golden("alignment/m4c_phoc.npz")
    ours = phoc(arrays[f"{group}words"].tolist())
    assert ours.dtype == np.float32
    np.testing.assert_array_equal(ours, arrays[f"{group}phoc"].numpy())


def test_exact_arithmetic_would_differ(golden):
    """The golden words are chosen so that rounding shows."""
    arrays = golden("alignment/m4c_phoc.npz")
    words, exact = arrays["ladder_words"].tolist(), arrays["ladder_phoc_exact"].numpy()
    np.testing.assert_array_equal([slow_and_exact(word) for word in words], exact)
    assert (phoc(words) != exact).any()


@pytest.mark.parametrize("word", ["stop", "ab", "q", "1984", "nintendo", "sixteenletters00"])
def test_words_whose_length_is_a_power_of_two_equal_exact_fractions_of_halves_and_quarters(word):
    halves_and_quarters = np.r_[0:72, 180:324, 504:604]
    np.testing.assert_array_equal(phoc([word])[0][halves_and_quarters], slow_and_exact(word)[halves_and_quarters])


def test_the_order_of_words_is_kept_and_nothing_leaks_between_them():
    words = ["tea", "", "coffee", "!?", "tea"]
    together = phoc(words)
    np.testing.assert_array_equal(together, np.concatenate([phoc([word]) for word in words]))
    assert not together[1].any()
    assert not together[3].any()


def test_no_words_are_no_rows():
    assert phoc([]).shape == (0, DIM) == (0, 604)
