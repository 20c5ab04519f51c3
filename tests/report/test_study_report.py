"""Do the tables of a study hold the right numbers? From a study folder that is written here, with known scores."""

import csv
import io
import json
import math
from statistics import fmean, stdev

import pytest

from lit_attn.report.comparisons import compare, rank_means, sentence
from lit_attn.report.cross_table import Column, CrossTable, escape_latex, to_latex, to_markdown
from lit_attn.report.errors import ReportError
from lit_attn.report.published import published_columns
from lit_attn.report.study_data import load_study
from lit_attn.report.study_report import study_files, write_study_report
from lit_attn.report.study_tables import score_against_attention, task_table
from lit_attn.report.tables import Spread

SCORES = {
    ("one", "dot"): (0.1, 0.2, 0.3),
    ("one", "general_query"): (0.81, 0.80, 0.79),
    ("one", "general_key"): (0.82, 0.78, 0.83),
    ("two", "dot"): (30.0, 20.0, 25.0),
    ("two", "general_query"): (5.0, 15.0, 10.0),
    ("two", "general_key"): (7.0, 2.0, 3.0),
}
CLASSES = {"dot": "dot", "general_query": "general", "general_key": "general"}


def write_run(folder, recipe, alignment, seed, score, status="done"):
    run = folder / f"{recipe}-{alignment}-s{seed}"
    (run / "attention").mkdir(parents=True)
    same = CLASSES[alignment] if recipe == "one" else alignment
    facts = {"name": run.name, "recipe": recipe, "alignment": alignment, "equivalence": same, "parameters": 7, "seed": seed,
             "verb": "fit", "status": status, "monitor": "val/acc", "mode": "max" if recipe == "one" else "min"}  # fmt: skip
    (run / "run.json").write_text(json.dumps(facts))
    worse = -1.0 if recipe == "one" else 1.0
    names = ["step", "epoch", "val/acc", "val/acc_few", "val/attention/a.0/cause_mass", "val/attention/a.1/cause_mass",
             "val/attention/a.0/cause_mass_chance"]  # fmt: skip
    lines = [names, [1, 0, score, score / 2, score + 1, score + 3, 0.25], [2, 1, score + worse, 0, 0, 0, 0.25]]
    (run / "metrics.csv").write_text("\n".join(",".join(map(str, line)) for line in lines) + "\n")
    cells = [["site", "head", "metric", "value", "count"]]
    for head in range(4):
        cells += [
            [f"a.{layer}", head, m, seed + head * sign, 5] for layer in (0, 1) for m, sign in (("x", 1), ("y", -2))
        ]
    (run / "attention" / "val-00000002.csv").write_text("\n".join(",".join(map(str, line)) for line in cells) + "\n")


@pytest.fixture
def study(tmp_path):
    info = {"name": "s", "recipes": {"one": "one", "two": "two"}, "digests": {"one": "", "two": ""},
            "alignments": ["dot", "general_query", "general_key"], "seeds": [0, 1, 2], "extra": []}  # fmt: skip
    (tmp_path / "study.json").write_text(json.dumps(info))
    for (recipe, alignment), scores in SCORES.items():
        for seed, score in enumerate(scores):
            write_run(tmp_path, recipe, alignment, seed, score)
    return tmp_path


def read(text):
    return list(csv.DictReader(io.StringIO(text.decode() if isinstance(text, bytes) else text)))


def test_one_row_per_run_at_its_best_step(study):
    table = read(study_files(load_study(study))["study.csv"])
    assert len(table) == 18
    for row in table:
        wanted = SCORES[row["recipe"], row["alignment"]][int(row["seed"])]
        assert float(row["score"]) == wanted
        assert float(row["attention cause_mass"]) == pytest.approx(wanted + 2), "the mean over two sites"


def test_means_marks_and_ranks(study):
    table, notes = task_table(load_study(study))
    one, two, rank = table.columns
    for column, recipe in ((one, "one"), (two, "two")):
        for alignment in table.rows:
            values = SCORES[recipe, alignment]
            assert column.cells[alignment].mean == pytest.approx(fmean(values))
            assert column.cells[alignment].std == pytest.approx(stdev(values))
    assert one.marks == {"general_query": "a", "general_key": "a"}
    assert not two.marks
    assert notes == ["one: (a) general_query, general_key: mathematically the same model there; they differ by noise."]
    assert {name: cell.mean for name, cell in rank.cells.items()} == {
        "dot": 3,
        "general_query": 2,
        "general_key": 1,
    }
    assert two.goodness("general_key") == 1.0, "a small score is good there"
    assert rank_means([{"a": 1.0, "b": 1.0}]) == {"a": 1.5, "b": 1.5}


def test_sentence_says_what_differs_and_what_no_test_can(study):
    loaded = load_study(study)
    found = compare(loaded.of("one"))
    assert [len(model.values) for model in found.models] == [3, 6]
    assert found.noise.freedom == 7
    (difference,) = found.differences
    assert difference.mean == pytest.approx(0.2 - 0.805)
    assert difference.permutation_p == 0.25
    text = sentence(found, "acc")
    assert "general (general_query, general_key) beats dot" in text
    assert "cannot go below p = 0.25" in text
    low = sentence(compare(loaded.of("two"), higher_is_better=False), "loss")
    assert "general_key beats dot" in low
    assert "not told from noise" in low
    alone = [run for run in loaded.of("one") if run.cell.seed == 0 and run.cell.alignment != "general_key"]
    assert "the noise is not known" in sentence(compare(alone), "acc")


def test_equal_models_are_one_point_of_the_correlation(study):
    found = score_against_attention(load_study(study))
    points, r = found["one", "cause_mass"]
    assert len(points) == r.n == 2
    points, r = found["two", "cause_mass"]
    assert r.n == 3
    assert r.r == pytest.approx(1.0), "attention was made from the score"


def test_everything_is_written_and_heads_correlate(study):
    write_study_report(study, page=False)
    text = (study / "table.md").read_text()
    assert "18 of 18 runs finished" in text
    assert "0.8000 ± 0.0100 (a)" in text
    heads = [row for row in read((study / "correlations.csv").read_text()) if row["over"] == "heads"]
    assert {(row["first"], row["second"], row["n"]) for row in heads} == {("x", "y", "8")}
    assert all(float(row["r"]) == pytest.approx(-1) for row in heads)
    for name in ("table", "kinds-one", "heads-one-x", "learning-one", "score-against-attention"):
        assert (study / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (study / "figures" / f"{name}.svg").read_text()
    assert r"\cellcolor[gray]{0.55}" in (study / "tables" / "table.tex").read_text()
    differences = read((study / "differences.csv").read_text())
    assert len(differences) == 1 + 3


def test_retrieval_is_broken_down_at_the_best_step(study):
    for seed in range(3):
        for step, ranks in ((1, (1, 2 + 4 * seed, 30)), (2, (99, 99, 99))):
            rows = [f"{p},c{p},{rank},{rank},{p},{'zoo' if p else 'zoo;park'}" for p, rank in enumerate(ranks)]
            path = study / f"one-dot-s{seed}" / "retrieval" / f"val-{step:08d}.csv"
            path.parent.mkdir(exist_ok=True)
            path.write_text("\n".join(["picture,caption,sentence_rank,picture_rank,nouns,categories", *rows]) + "\n")
    files = study_files(load_study(study))
    (row,) = read(files["tables/categories-text-one.csv"])
    # By seed, R@1 + R@5 + R@10 of the ranks 1, 30 and 2, 6 or 10.
    values = [100 * (1 + 2 + 2) / 3, 100 * (1 + 1 + 2) / 3, 100 * (1 + 1 + 2) / 3]
    assert float(row["zoo (100 %) mean"]) == pytest.approx(fmean(values))
    assert float(row["zoo (100 %) std"]) == pytest.approx(stdev(values))
    assert float(row["park (33 %) mean"]) == 300
    (row,) = read(files["tables/nouns-image-one.csv"])
    assert [float(row[f"{count} (n = 1) mean"]) for count in (0, 2)] == [300, 0]
    assert {"figures/categories-one.png", "figures/nouns-one.svg", "tables/nouns-text-one.tex"} <= files.keys()
    assert "By number of nouns, image retrieval, Rsum: one" in files["table.md"].decode()
    assert not [name for name in files if name.startswith("tables/categories") and "two" in name]


def test_unfinished_and_damaged_runs_are_named_and_not_counted(study):
    (study / "one-dot-s0" / "metrics.csv").write_text("step,val/acc\n1,what\n")
    info = json.loads((study / "one-dot-s1" / "run.json").read_text())
    (study / "one-dot-s1" / "run.json").write_text(json.dumps(info | {"status": "terminated"}))
    write_study_report(study, page=False)
    text = (study / "table.md").read_text()
    assert "16 of 18 runs finished" in text
    assert "val/acc is 'what', expected a number" in text
    assert "one-dot-s1" in text.partition("## Not finished")[2].replace("\\", "")
    assert len(load_study(study).of("one")) == 7


def test_a_folder_without_a_study_is_refused(tmp_path):
    with pytest.raises(ReportError, match="no study lives there"):
        load_study(tmp_path)


def test_text_from_names_is_escaped():
    nasty = "a|b_<i>\\&%$"
    table = CrossTable("x", (nasty,), (Column(nasty, {nasty: Spread(1.5, 0.25, 3)}, True, None, 3),))
    assert "<i>" not in to_markdown(table)
    assert to_markdown(table).count(" | ") == 3
    assert escape_latex(nasty) in to_latex(table, nasty)
    assert escape_latex("a_b±&\\") == r"a\_b$\pm$\&\textbackslash{}"
    assert math.isnan(Column("x", {}, True).goodness("a"))


def test_published_values_stand_only_beside_the_same_data(study):
    loaded = load_study(study)
    assert published_columns(loaded.of("one")) == []
    for run in study.glob("one-*"):
        (run / "config.yaml").write_text("data:\n  class_path: lit_attn.data.clevr.Clevr\n")
        info = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps(info | {"monitor": "val/accuracy"}))
        text = (run / "metrics.csv").read_text()
        (run / "metrics.csv").write_text(text.replace("val/acc,", "val/accuracy,"))
    (column,) = published_columns(load_study(study).of("one"))
    assert column.cells["scaled_dot"].mean == 0.973


def test_the_verb_report_knows_a_study(study, capsys):
    from lit_attn.cli.main import main

    assert main(["report", str(study)]) == 0
    assert "table.md" in capsys.readouterr().out
    assert (study / "report" / "one" / "index.html").exists()
    assert main(["report", str(study), str(study / "one-dot-s0")]) == 2
    assert "report it alone" in capsys.readouterr().err
