"""Figures hold the numbers they claim to show."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex

from lit_attn.report import drawing, figures
from lit_attn.report.heads import HeadGrid, grid_row
from lit_attn.report.looks import run_looks
from lit_attn.report.runs import Run, read_runs


@pytest.fixture
def runs(tmp_path: Path, write_run) -> tuple[Run, ...]:
    folders = [write_run(tmp_path / "a", samples=0), write_run(tmp_path / "b", seed=1, samples=0, alignment="dot")]
    return read_runs(folders)


def test_score_curves_contain_the_data_in_the_colours_of_the_runs(runs: tuple[Run, ...]) -> None:
    figure = figures.draw_curves(figures.score_panels(runs), figures.run_legend(runs))
    first = figure.axes[0]
    assert first.get_title(loc="left") == "val/rsum"
    lines = {line.get_label(): line for line in first.lines if line.get_label() in ("a", "b")}
    for index, run in enumerate(runs):
        np.testing.assert_array_equal(lines[run.name].get_xdata(), run.metrics["val/rsum"].steps)
        np.testing.assert_array_equal(lines[run.name].get_ydata(), run.metrics["val/rsum"].values)
        assert to_hex(lines[run.name].get_color()) == drawing.HUES[index].lower()
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b"]
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[-2:] == ["train/loss", "lr"]
    assert len(titles) == 10


def test_ceiling_is_drawn_at_its_height(runs: tuple[Run, ...]) -> None:
    figure = figures.draw_curves(figures.score_panels(runs[:1]))
    ceilings = [line for line in figure.axes[0].lines if line.get_label() == "ceiling"]
    assert [list(line.get_ydata()) for line in ceilings] == [[571.2, 571.2]]


def test_attention_curves_carry_their_chance_level(runs: tuple[Run, ...]) -> None:
    panels = figures.attention_panels(runs[:1])
    assert [panel.title for panel in panels] == ["entropy", "grounding_mass", "pointing_accuracy"]
    figure = figures.draw_curves(panels, figures.attention_legend(runs[:1], panels))
    drawn = [line.get_ydata() for line in figure.axes[1].lines]
    metrics = runs[0].metrics
    for layer in range(3):
        for name in ("grounding_mass", "grounding_chance"):
            expected = metrics[f"val/attention/decoder.{layer}.cross/{name}"].values
            assert any(np.array_equal(expected, values) for values in drawn)
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["decoder.0.cross", "decoder.1.cross", "decoder.2.cross", "chance"]


def test_heat_maps_share_their_scale_and_print_their_values() -> None:
    rows = (grid_row("decoder.0.cross"), grid_row("decoder.1.cross"))
    one = HeadGrid("entropy", rows, np.array([[0.25, np.nan, 3.0], [1.0, 1.5, 2.0]]), np.ones((2, 3)))
    two = HeadGrid("entropy", rows, np.array([[0.5, 5.0], [1.25, 0.75]]), np.ones((2, 2)))
    figure = figures.draw_heat_maps([("a", one), ("b", two)], "entropy")
    left, right = figure.axes[:2]
    np.testing.assert_array_equal(left.images[0].get_array().filled(np.nan), one.values)
    assert left.images[0].get_clim() == right.images[0].get_clim() == (0.25, 5.0)
    assert [text.get_text() for text in left.texts] == ["0.2500", "–", "3", "1", "1.500", "2"]
    assert [label.get_text() for label in left.get_yticklabels()] == [
        "decoder · cross, layer 1",
        "decoder · cross, layer 2",
    ]
    assert [label.get_text() for label in left.get_xticklabels()] == ["1", "2", "3"]


def test_word_map_holds_the_weights() -> None:
    weights = np.array([[0.1, 0.2, 0.7], [0.3, 0.3, 0.4]])
    figure = figures.draw_word_map(weights, ["a", "sofa"], ["x", "y", "z"], "match")
    axes = figure.axes[0]
    np.testing.assert_array_equal(axes.images[0].get_array(), weights)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["a", "sofa"]
    assert axes.images[0].get_clim() == (0.0, 0.7)


def test_hostile_labels_are_drawn_as_they_are() -> None:
    words = ["$\\frac{$", "_hidden", "</text><script>", "🐈", "a\nb"]
    figure = figures.draw_word_map(np.full((5, 5), 0.2), words, words, "$x$")
    document = drawing.to_svg(figure)
    assert "<script" not in document
    assert "$\\frac{$" in document
    assert drawing.to_png(figure).startswith(b"\x89PNG")


def test_many_runs_take_the_colour_of_their_alignment(runs: tuple[Run, ...]) -> None:
    assert [look.color for look in run_looks(runs)] == list(drawing.HUES[:2])
    many = [replace(run, info=replace(run.info, name=f"{run.name}-{seed}")) for run in runs for seed in range(4)]
    looks = run_looks(many)
    assert [look.label for look in looks] == ["general_query"] * 4 + ["dot"] * 4
    assert {look.color for look in looks} == set(drawing.HUES[:2])
    assert [line.get_label() for line in figures.run_legend(many)] == ["general_query", "dot"]


def test_names_with_an_underscore_stay_in_the_legend(tmp_path: Path, write_run) -> None:
    runs = read_runs([write_run(tmp_path / "_a", samples=0), write_run(tmp_path / "_b", samples=0)])
    figure = figures.draw_curves(figures.score_panels(runs), figures.run_legend(runs))
    assert [text.get_text().strip("\u200a") for text in figure.legends[0].get_texts()] == ["_a", "_b"]


def test_svg_is_reproducible_and_takes_the_colour_of_the_page(runs: tuple[Run, ...]) -> None:
    first, second = (drawing.to_svg(figures.draw_curves(figures.score_panels(runs))) for _ in range(2))
    assert first == second
    inline = drawing.inline_svg(first, "p1", "Curves")
    assert "currentColor" in inline
    assert drawing.INK not in inline
    assert 'id="p1-figure_1"' in inline
    assert inline.startswith('<svg viewBox="')


def test_ink_has_contrast() -> None:
    assert (drawing.ink_on("#ffffff"), drawing.ink_on("#00224d")) == ("#000000", "#ffffff")
    assert drawing.value_color(0.0) == drawing.palette()[0]
    assert drawing.value_color(1.0) == drawing.palette()[-1]
