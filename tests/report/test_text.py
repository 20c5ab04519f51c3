"""Text from data is made safe, numbers are made short."""

import json
import math

import pytest

from lit_attn.report.markup import Markup, data_block, tag
from lit_attn.report.text import escape_markdown, format_number, natural_key, plain, script_json, slug


def test_script_json_cannot_leave_its_element_and_keeps_the_value() -> None:
    value = {"words": ["</script><script>alert(1)</script>", "<!--", "&amp;", "“ü”", "🐈", "\u2028"]}
    encoded = script_json(value)
    assert not set("<>&") & set(encoded)
    assert json.loads(encoded) == value


def test_tag_escapes_text_and_attributes_but_not_markup() -> None:
    made = tag("td", "<b>", Markup("<i>x</i>"), title='"><script>', hidden=True, lang=None)
    assert made == '<td title="&quot;&gt;&lt;script&gt;" hidden>&lt;b&gt;<i>x</i></td>'


def test_data_block_is_not_javascript() -> None:
    assert data_block("a", [1]) == '<script type="application/json" id="a">[1]</script>'


def test_plain_replaces_control_characters_and_lone_surrogates() -> None:
    assert plain("a\x00b\x1bc\ud800d\n🐈") == "a\ufffdb\ufffdc?d\n🐈"


def test_markdown_cells_keep_their_borders() -> None:
    assert escape_markdown("a|b\n<i>_c_") == "a\\|b &lt;i&gt;\\_c\\_"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (512.345, "512.3"),
        (0.12345, "0.1235"),
        (3, "3"),
        (1.5, "1.500"),
        (1e-5, "1e-05"),
        (2.5e7, "25000000"),
        (2500000.5, "2.5e+06"),
        (12345.6, "12346"),
    ],
)
def test_format_number(value: float | int, text: str) -> None:
    assert format_number(value) == text


def test_format_number_of_what_is_no_number() -> None:
    assert (format_number(math.nan), format_number(math.inf)) == ("–", "∞")


def test_slug_and_natural_order() -> None:
    assert slug("../val/grounding mass") == "val_grounding_mass"
    assert slug("🐈") == "unnamed"
    assert sorted(["decoder.10", "decoder.9", "a"], key=natural_key) == ["a", "decoder.9", "decoder.10"]
