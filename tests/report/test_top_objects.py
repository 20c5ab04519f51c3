"""Do lists of objects hold what the tables say, the mean over a stack first, and own up to what a site left out?"""

from pathlib import Path

import pytest

from lit_attn.report.page import write_report
from lit_attn.report.top_objects import top_objects

HEADER = "table,site,target,source,value,chance,rows"
ROWS = [
    "objects,decoder.0.cross,box,red box,0.5,0.1,3",
    "objects,decoder.0.cross,box,sofa,0.25,0.2,3",
    "objects,decoder.1.cross,box,red box,0.1,0.1,1",
    "objects,decoder.1.cross,box,<lamp>,0.4,0.3,1",
    "objects,decoder.0.cross,sofa,sofa,0.7,0.1,8",
    "objects,decoder.1.cross,sofa,sofa,0.9,0.1,8",
    "map_pos,decoder.0.self,NOUN,NOUN,0.5,0.5,9",
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run" / "attention").mkdir(parents=True)
    (tmp_path / "run" / "run.json").write_text('{"name": "one"}')
    (tmp_path / "run" / "attention" / "val-00000000-tables.csv").write_text("\n".join([HEADER, *ROWS]) + "\n")
    return tmp_path / "run"


def test_means_are_weighted_by_uses_and_most_used_words_come_first():
    sofa, box = top_objects([row.split(",") for row in ROWS[:-1]])
    assert (sofa.word, sofa.uses) == ("sofa", 8)
    assert sofa.looks == (("sofa", pytest.approx(0.8), pytest.approx(0.1), False),)
    red, other, lamp = box.looks
    assert red == ("red box", pytest.approx((3 * 0.5 + 0.1) / 4), pytest.approx(0.1), False)
    assert other == ("sofa", pytest.approx(3 * 0.25 / 4), pytest.approx(0.2), True)
    assert lamp == ("<lamp>", pytest.approx(0.4 / 4), pytest.approx(0.3), True)


def test_the_page_shows_the_stack_first_and_then_its_sites(run):
    text = write_report([run]).read_text(encoding="utf-8")
    part = text.partition('<section id="objects">')[2].partition("</section>")[0]
    mean, first, second = part.split("<details")[1:]
    assert mean.startswith(" open><summary>decoder · cross, mean of 2 sites</summary>")
    assert first.startswith("><summary>decoder.0.cross</summary>")
    assert second.startswith("><summary>decoder.1.cross</summary>")
    assert mean.index("sofa 80.0 (10.0)") < mean.index("red box 40.0 (10.0)") < mean.index("sofa ≥ 18.8 (20.0)")
    assert "&lt;lamp&gt; ≥ 10.0 (30.0)" in mean
    assert "<lamp>" not in text
    assert "red box 50.0 (10.0)" in first


def test_a_long_list_is_cut_and_says_so(run):
    many = [f"objects,decoder.0.cross,word{i},sofa,0.5,0.1,{100 - i}" for i in range(37)]
    (run / "attention" / "val-00000000-tables.csv").write_text("\n".join([HEADER, *many]) + "\n")
    text = write_report([run]).read_text(encoding="utf-8")
    assert "word29</th>" in text
    assert "word30</th>" not in text
    assert "Less used words, 7 of them, are in the run folder." in text
