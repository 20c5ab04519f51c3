"""Tokens become prose, and nothing of them is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lit_attn.report.sentences import sentences


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a red sofa , and a plant . it is big .", ["A red sofa, and a plant.", "It is big."]),
        ("a lamp hangs", ["A lamp hangs"]),
        ("is it big ? yes ! the end", ["Is it big?", "Yes!", "The end"]),
        ("ünder the bed .", ["Ünder the bed."]),
        ("Written by hand. It is 3.5 m.", ["Written by hand. It is 3.5 m."]),
        ("a gap of .5 mm , or so", ["A gap of .5 mm, or so"]),
        (". a , , b", [".", "A,, b"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_examples(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@given(st.lists(st.sampled_from(["a", "sofa", ".", ",", "?", "'s", "<b>", "3.5", "…"])))
def test_only_blanks_and_capitals_change(tokens: list[str]) -> None:
    found = sentences(" ".join(tokens))
    assert "".join(found).replace(" ", "").lower() == "".join(tokens).lower()
    assert len(found) == sum(map("?.".count, tokens)) + bool(tokens and tokens[-1] not in ".?")
