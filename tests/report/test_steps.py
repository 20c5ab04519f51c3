"""Are the tables by step and kind of question read and shown as they were written?"""

import re
from pathlib import Path

import pytest

from lit_attn.callbacks.attention_files import write_steps
from lit_attn.probes.probe import StepValue
from lit_attn.report.errors import ReportError
from lit_attn.report.page import write_report
from lit_attn.report.steps import read_steps

VALUES = [
    StepValue("read", 0, "cause_mass", 0, "all", 0.25, 4),
    StepValue("read", 1, "cause_mass", 0, "all", 0.75, 12),
    StepValue("read", 0, "cause_mass", 1, "all", 0.5, 8),
    StepValue("read", 0, "cause_mass", 1, "<script>count", 0.875, 3),
    StepValue("read", 0, "cause_mass_chance", 0, "all", 0.125, 16),
    StepValue("read", 0, "cause_mass_chance", 1, "all", 0.125, 8),
    StepValue("control", 0, "step_entropy", 0, "all", 0.375, 5),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_steps(tmp_path / "run" / "attention" / "val-00000007-steps.csv", VALUES)
    write_steps(tmp_path / "run" / "attention" / "val-00000003-steps.csv", VALUES[:1])
    return tmp_path / "run"


def test_heads_are_averaged_by_what_they_counted_and_the_last_validation_counts(folder: Path) -> None:
    mass, chance, entropy = read_steps(folder / "attention")
    assert (mass.metric, chance.metric, entropy.metric) == ("cause_mass", "cause_mass_chance", "step_entropy")
    assert mass.at == 7
    assert mass.steps == [0, 1]
    assert mass.kinds == ["all", "<script>count"]
    assert mass.cells[0, "all"].value == pytest.approx((0.25 * 4 + 0.75 * 12) / 16)
    assert mass.cells[0, "all"].count == 16
    assert (0, "<script>count") not in mass.cells


def test_the_page_shows_them_with_their_chance_and_escapes_kinds(folder: Path) -> None:
    page = write_report([folder]).read_text()
    section = re.search(r'<section id="steps">.*?</section>', page, re.S)[0]
    assert "<script>count" not in section
    assert "&lt;script&gt;count" in section
    assert re.search(r"read, step 2, &lt;script&gt;count: 0.8750 \(n = 3\)", section)
    assert re.search(r"read, step 1, all: 0.6250, chance 0.1250 \(n = 16\)", section)
    assert re.search(r"<tfoot><tr><th[^>]*>chance</th><th>0.12</th>", section)
    assert section.count("<table") == 2, "chance levels have no table of their own"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("site,head\n", "line 1: columns are"),
        ("site,head,metric,step,kind,value,count\nread,0,m,x,all,0.5,3\n", "line 2"),
        ("site,head,metric,step,kind,value,count\nread,0,m,1,all,0.5,0\n", "count must be positive"),
        ("site,head,metric,step,kind,value,count\nread,0,m\n", "line 2: 3 cells"),
    ],
)
def test_damaged_tables_are_named(folder: Path, text: str, message: str) -> None:
    (folder / "attention" / "val-00000009-steps.csv").write_text(text)
    with pytest.raises(ReportError, match=message):
        read_steps(folder / "attention")
