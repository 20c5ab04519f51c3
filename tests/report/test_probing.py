"""Do maps in the papers' form, their neighbours and the tables of stacks hold the numbers of the run folder?"""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from lit_attn.report.beside import blocks_of, drawn_metrics
from lit_attn.report.errors import ReportError
from lit_attn.report.head_maps import heat_figures
from lit_attn.report.heads import head_grid
from lit_attn.report.page import write_report
from lit_attn.report.probing import means_csv, means_markdown, stack_means
from lit_attn.report.runs import read_run
from lit_attn.report.word_maps import word_map, word_map_figures

HOSTILE = "<img src=x onerror=alert(1)>"
LAYERS, HEADS = 3, 5


def value(kind: str, layer: int, head: int) -> float:
    return {"self": 0.1, "cross": 0.2, "raw": 0.5, "change": -0.4}[kind] + 0.07 * layer + 0.011 * head


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Three layers of five heads: a share of self-attention, and one of cross-attention with raw captures and changes."""
    folder = tmp_path / "run"
    (folder / "attention").mkdir(parents=True)
    (folder / "run.json").write_text('{"name": "one"}')
    rows = []
    for layer in range(LAYERS):
        for head in range(HEADS):
            own, cross = f"decoder.{layer}.self", f"decoder.{layer}.cross"
            rows += [
                (own, head, "pos_noun", value("self", layer, head), 7),
                (own, head, "pos_noun_chance", 0.21, 7),
                (own, head, "dep_det_all", 0.3, 7),
                (cross, head, "phrase_grounding", value("cross", layer, head), 7),
                (cross, head, "phrase_grounding_chance", 0.06 + 0.01 * layer, 7),
                (f"raw.{cross}", head, "phrase_grounding", value("raw", layer, head), 7),
                (cross, head, "ablation_loss", value("change", layer, head), 1),
            ]
    with (folder / "attention" / "val-00000000.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("site", "head", "metric", "value", "count"), *rows])
    (folder / "attention" / "val-00000000-findings.csv").write_text(
        f"finding,sites,n,r,p,permutation_p\nnouns {HOSTILE},decoder.*.self,15,0.123456,0.5,0.25\n"
        '"object_words_start, relation_words_start",decoder.*.self,15,-0.8212,0.001,0.001\n'
    )
    (folder / "attention" / "val-00000000-agreement.csv").write_text(
        "metric,score,sites,n,r,p,permutation_p\npos_noun,loss,decoder.*.self,15,-0.654321,0.01,0.02\n"
        "dep_det_all,loss,decoder.*.self,15,0.777,0.1,0.2\n"
    )
    (folder / "attention" / "val-00000000-tables.csv").write_text(
        "table,site,target,source,value,chance,rows\n"
        + "".join(
            f"map_pos,decoder.{layer}.self,{target},{source},{0.25 + 0.1 * layer},0.5,9\n"
            for layer in range(2)
            for target in ("NOUN", "VERB")
            for source in ("NOUN", "DET")
        )
        + "map_pos,decoder.0.self,NOUN,SYM,0.0,0.0,9\nobjects,decoder.0.cross,sofa,red sofa,0.5,0.1,3\n"
    )
    return folder


def shown(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_maps_are_layers_by_heads_from_1_in_per_cent_with_raw_and_change_beside(run):
    found = heat_figures([read_run(run)])
    assert set(found) == {"heads-pos_noun", "heads-phrase_grounding", "heads-ablation_loss"}
    used, raw, change = found["heads-phrase_grounding"].axes
    cells = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    assert shown(used) == [f"{100 * value('cross', *cell):.1f}" for cell in cells]
    assert shown(raw) == [f"{100 * value('raw', *cell):.1f}" for cell in cells]
    assert shown(change) == [f"{value('change', *cell):+.3f}" for cell in cells]
    for axes in (used, raw, change):
        assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "2", "3"]
        assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "3", "4", "5"]
    assert used.images[0].get_clim() == raw.images[0].get_clim() == (value("cross", 0, 0), value("raw", 2, 4))
    low, high = change.images[0].get_clim()
    assert low == -high
    assert used.get_title(loc="left") == "val 0, used, chance 7.0"
    assert raw.get_title(loc="left") == "val 0, raw residual"
    assert change.get_title(loc="left") == "change of loss without the head"
    assert found["heads-phrase_grounding"].get_suptitle() == "phrase grounding, per cent"
    (alone,) = found["heads-pos_noun"].axes
    assert alone.get_title(loc="left") == "val 0, chance 21.0"


def test_derived_metrics_have_no_map_and_blocks_keep_their_rows(run):
    read = read_run(run)
    assert drawn_metrics([read]) == ["ablation_loss", "phrase_grounding", "pos_noun"]
    parts = blocks_of(head_grid(read.heads[0], "phrase_grounding"))
    assert list(parts) == ["decoder · cross"]
    np.testing.assert_array_equal(
        parts["decoder · cross"].values[1], [value("cross", 1, head) for head in range(HEADS)]
    )


def test_tables_of_stacks_hold_means_best_heads_and_chance(run, tmp_path):
    means = stack_means([read_run(run)])
    (whole,) = [
        row for row in means if (row.metric, row.stack, row.layer) == ("phrase_grounding", "decoder · cross", "all")
    ]
    values = [value("cross", layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    assert (whole.mean, whole.least, whole.most) == pytest.approx((sum(values) / 15, min(values), max(values)))
    assert (whole.best, whole.heads) == ("decoder.2.cross:4", 15)
    assert whole.chance == pytest.approx(0.07)
    (layer,) = [
        row for row in means if (row.metric, row.stack, row.layer) == ("phrase_grounding", "raw.decoder · cross", "1")
    ]
    assert layer.mean == pytest.approx(sum(value("raw", 1, head) for head in range(HEADS)) / HEADS)
    assert math.isnan(next(row for row in means if row.metric == "ablation_loss").chance)
    rows = list(csv.DictReader(means_csv(means).splitlines()))
    assert float(rows[0]["mean"]) == means[0].mean
    text = means_markdown(means)
    assert f"| phrase\\_grounding | {whole.mean:.4f} | {whole.most:.4f} (decoder.2.cross:4) | 0.0700 |" in text
    assert text.endswith("layers and heads count from 0 in names.\n")
    assert not any(row.metric.endswith("_chance") for row in means)


def test_the_page_shows_neighbours_and_correlations(run):
    page = write_report([run])
    text = page.read_text(encoding="utf-8")
    assert "change of loss without the head, val" in text
    assert "raw residual, val" in text
    assert "chance 0.0700" in text
    assert "decoder · cross, layer 3, head 5: 0.3840" in text
    assert "decoder.2.cross, head" not in text
    assert "−0.6543" in text or "-0.6543" in text
    assert "0.1235" in text
    assert "object_words_start, relation_words_start" in text, "maps do not say whether START counts: both are shown"
    assert "0.7770" not in text, "ranks of other denominators stay in the file"
    assert HOSTILE not in text
    assert (page.parent / "heads.md").exists()
    assert (page.parent / "figures" / "heads-phrase_grounding.png").exists()
    assert (page.parent / "figures" / "words-map_pos-decoder_self-one.svg").exists()


def own_texts(run: Path) -> None:
    """The same validation probed the model's own texts, too; an older one of them is out of date."""
    head = "finding,sites,n,r,p,permutation_p\n"
    folder = run / "attention"
    (folder / "val_own-00000000-findings.csv").write_text(f"{head}nouns,decoder.*.self,15,0.4321,0.5,0.25\n")
    (folder / "val_own-00000000-tables.csv").write_bytes((folder / "val-00000000-tables.csv").read_bytes())
    (folder / "val_own-00000000-agreement.csv").write_text("")
    for name in ("findings", "tables"):
        (folder / f"val-00000003-{name}.csv").write_bytes((folder / f"val-00000000-{name}.csv").read_bytes())
    (folder / "val-00000000-findings.csv").write_text(f"{head}nouns,decoder.*.self,15,0.9876,0.5,0.25\n")


def test_gold_and_own_texts_stand_side_by_side_and_say_which_they_are(run):
    own_texts(run)
    text = write_report([run]).read_text(encoding="utf-8")
    for stage, r in (("val", "0.1235"), ("val_own", "0.4321")):
        summary = f"<summary>Correlations over heads and over words, {stage}</summary>"
        assert r in text.partition(summary)[2].partition("</table>")[0], stage
    assert "0.9876" not in text, "the last validation of a stage counts"
    assert "changes of scores</summary>" in text, "one stage needs no name"
    found = word_map_figures([read_run(run)])
    assert list(found) == ["words-map_pos-decoder_self-one-val", "words-map_pos-decoder_self-one-val_own"]
    titles = [figure.axes[0].get_title(loc="left") for figure in found.values()]
    assert [title.partition(":")[0] for title in titles] == [
        "pos, decoder · self, one, val",
        "pos, decoder · self, one, val_own",
    ]


def test_maps_of_tags_are_means_over_the_sites_of_a_stack(run):
    (name,) = word_map_figures([read_run(run)])
    assert name == "words-map_pos-decoder_self-one"
    rows = [r.split(",") for r in (run / "attention" / "val-00000000-tables.csv").read_text().splitlines()[1:]]
    targets, sources, values = word_map([row for row in rows if row[0] == "map_pos"])
    assert (targets, sources) == (["NOUN", "VERB"], ["NOUN", "DET"])
    np.testing.assert_allclose(values, 0.3)
    (run / "attention" / "val-00000000-tables.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ReportError, match=r"has the columns \['a', 'b'\]"):
        word_map_figures([read_run(run)])
