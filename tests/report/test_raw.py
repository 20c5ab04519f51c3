"""Raw captures are set apart from what the network used, and compared with it."""

from pathlib import Path
from statistics import fmean

import pytest

from lit_attn.report.capture import capture_section, captures, draw_capture
from lit_attn.report.drawing import to_svg
from lit_attn.report.heads import read_heads
from lit_attn.report.raw import comparisons, set_apart, split_heads, without_raw
from lit_attn.report.runs import Run, read_run

USED = {"decoder.0.cross": (0.9, 0.8, 0.4), "decoder.1.cross": (0.6, 0.5), "encoder.0.self": (1.0, 0.5, 0.75)}
RAW = {"decoder.0.cross": (0.7, 0.5, 0.3), "decoder.1.cross": (0.25, 0.0, 0.125), "encoder.0.self": (0.5, 0.25, 0.75)}


@pytest.fixture
def run(captioner: Path) -> Run:
    return read_run(captioner)


def test_only_raw_sites_beside_their_used_ones_are_set_apart() -> None:
    sites = ["decoder.0.cross", "raw.decoder.0.cross", "raw.decoder.1.cross", "raw", "rawer.0"]
    assert set_apart(sites) == {"raw.decoder.0.cross"}


def test_run_keeps_raw_out_of_its_metrics_and_heads(run: Run) -> None:
    assert [name for name in run.metrics if "raw." in name] == []
    assert "val/attention/decoder.0.cross/grounding_mass" in run.metrics
    assert {value.site for table in run.heads for value in table.values} == set(USED)
    assert {value.site for table in run.raw_heads for value in table.values} == {f"raw.{site}" for site in USED}


def test_raw_site_alone_stays_an_ordinary_site(tmp_path: Path) -> None:
    header = "site,head,metric,value,count\n"
    (tmp_path / "val-1.csv").write_text(header + "raw.decoder.0.cross,0,entropy,0.5,1\n")
    (tmp_path / "val-2.csv").write_text(header + "raw.match,0,entropy,0.5,1\nmatch,0,entropy,0.25,1\n")
    used, raw = split_heads(read_heads(tmp_path))
    assert [[value.site for value in table.values] for table in used] == [["raw.decoder.0.cross"], ["match"]]
    assert [(table.step, [value.site for value in table.values]) for table in raw] == [(2, ["raw.match"])]
    alone = {"val/attention/raw.match/entropy": object(), "val/loss": object()}
    assert list(without_raw(alone)) == list(alone)


def test_comparison_holds_every_measured_head(run: Run) -> None:
    (found,) = comparisons(run.heads, run.raw_heads)
    assert (found.stage, found.step, list(found.families)) == ("val", 2, ["decoder · cross", "encoder · self"])
    pairs = [pair for family in found.families.values() for pair in family]
    assert {pair.row.site: pair.used for pair in pairs} == USED
    assert {pair.row.site: pair.raw for pair in pairs} == RAW
    assert [pair.row.label for pair in found.families["decoder · cross"]] == ["layer 1", "layer 2"]


def test_last_validation_of_each_stage_is_compared_and_a_metric_on_one_side_is_not(tmp_path: Path) -> None:
    header = "site,head,metric,value,count\n"
    (tmp_path / "val-1.csv").write_text(header + "raw.match,0,entropy,0.1,1\nmatch,0,entropy,0.2,1\n")
    (tmp_path / "val-2.csv").write_text(header + "raw.match,0,entropy,0.3,1\nmatch,0,entropy,0.4,1\n")
    (tmp_path / "test-2.csv").write_text(header + "raw.match,0,entropy,inf,1\nmatch,0,entropy,0.6,1\n")
    (found,) = comparisons(*split_heads(read_heads(tmp_path)))
    assert (found.stage, found.step) == ("val", 2)
    assert [(pair.used, pair.raw) for pair in found.families["match"]] == [((0.4,), (0.3,))]


def test_figure_holds_means_and_heads_on_one_scale(run: Run) -> None:
    (found,) = comparisons(run.heads, run.raw_heads)
    figure = draw_capture(found)
    assert [axes.get_title(loc="left") for axes in figure.axes] == list(found.families)
    assert {axes.get_ylim() for axes in figure.axes} == {(0.0, 1.0)}
    for axes, sites in zip(figure.axes, (list(USED)[:2], list(USED)[2:]), strict=True):
        lines = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
        for label, known in (("used", USED), ("raw", RAW)):
            assert lines[label] == pytest.approx([fmean(known[site]) for site in sites])
            assert lines[f"{label} heads"] == [value for site in sites for value in known[site]]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["used", "raw", "one head"]


def test_section_says_what_raw_is_and_gives_the_numbers(run: Run) -> None:
    compared = captures([run])
    documents = {name: to_svg(draw_capture(comparison)) for name, (_, comparison) in compared.items()}
    section = capture_section([run], compared, documents)
    assert section is not None
    assert "only used is what the network did" in section.content
    row = section.content[section.content.index(">decoder.1.cross</th>") :]
    cells = ["0.550", "0.500 – 0.600", "0.125", "0.000 – 0.250"]
    assert [row.index(f">{cell}</td>") for cell in cells] == sorted(row.index(f">{cell}</td>") for cell in cells)
    assert capture_section([run], {}, {}) is None


def test_runs_of_one_name_have_figures_of_their_own(run: Run) -> None:
    assert list(captures([run, run])) == ["capture-captioner-val", "capture-captioner-val-2"]
