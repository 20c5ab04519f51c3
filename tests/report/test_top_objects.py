"""Do lists of objects hold what the tables say, the mean over a stack first?"""

from pathlib import Path

import pytest

from lit_attn.report.page import write_report
from lit_attn.report.top_objects import top_objects

HEADER = "table,site,target,source,value,chance,rows"
ROWS = [
    "objects,decoder.0.cross,box,red box,0.5,0.1,3",
    "objects,decoder.0.cross,box,<lamp>,0.25,0.2,3",
    "objects,decoder.1.cross,box,red box,0.1,0.1,3",
    "objects,decoder.0.cross,sofa,sofa,0.7,0.1,8",
    "objects,decoder.*.cross,box,red box,0.3,0.1,3",
    "objects,decoder.*.cross,box,<lamp>,0.2,0.2,3",
    "objects,decoder.*.cross,sofa,sofa,0.8,0.1,8",
    "map_pos,decoder.0.self,NOUN,NOUN,0.5,0.5,9",
]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "run" / "attention").mkdir(parents=True)
    (tmp_path / "run" / "run.json").write_text('{"name": "one"}')
    (tmp_path / "run" / "attention" / "val-00000000-tables.csv").write_text("\n".join([HEADER, *ROWS]) + "\n")
    return tmp_path / "run"


def test_most_used_words_come_first():
    sofa, box = top_objects([row.split(",") for row in ROWS[4:-1]])
    assert (sofa.word, sofa.uses, sofa.looks) == ("sofa", 8, (("sofa", 0.8, 0.1),))
    assert (box.word, box.uses, box.looks) == ("box", 3, (("red box", 0.3, 0.1), ("<lamp>", 0.2, 0.2)))


def test_the_page_shows_the_stack_first_and_then_its_sites(run):
    text = write_report([run]).read_text(encoding="utf-8")
    part = text.partition('<section id="objects">')[2].partition("</section>")[0]
    mean, first, second = part.split("<details")[1:]
    assert mean.startswith(" open><summary>decoder · cross, mean over layers</summary>")
    assert first.startswith("><summary>decoder.0.cross</summary>")
    assert second.startswith("><summary>decoder.1.cross</summary>")
    assert mean.index("sofa 80.0 (10.0)") < mean.index("red box 30.0 (10.0)") < mean.index("&lt;lamp&gt; 20.0 (20.0)")
    assert "<lamp>" not in text
    assert "red box 50.0 (10.0)" in first


def test_a_long_list_is_cut_and_says_so(run):
    many = [f"objects,decoder.0.cross,word{i},sofa,0.5,0.1,{100 - i}" for i in range(37)]
    (run / "attention" / "val-00000000-tables.csv").write_text("\n".join([HEADER, *many]) + "\n")
    text = write_report([run]).read_text(encoding="utf-8")
    assert "word29</th>" in text
    assert "word30</th>" not in text
    assert "Less used words, 7 of them, are in the run folder." in text
