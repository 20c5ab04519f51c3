"""Is retrieval broken down as the paper does: ranks of the whole set, own nouns or the most, shares of pictures?"""

import math
from pathlib import Path

import numpy as np
import pytest

from lit_attn.data.matching import PictureFacts
from lit_attn.ops.retrieval import picture_ranks, rank_scores, retrieval_scores, sentence_ranks
from lit_attn.report.breakdowns import breakdown_figures, breakdown_tables
from lit_attn.report.errors import ReportError
from lit_attn.report.page import write_report
from lit_attn.report.retrieval import by_category, by_nouns, read_ranks, rsum
from lit_attn.tasks.rank_files import write_ranks

PICTURES, CAPTIONS = 23, 3
NAMES = ("animal", "food", "<vehicle>")


def world(seed: int) -> tuple[np.ndarray, dict[int, PictureFacts]]:
    """Similarities and facts of 23 pictures whose ids are not their places."""
    random = np.random.default_rng(seed)
    similarity = random.standard_normal((PICTURES, PICTURES * CAPTIONS))
    similarity[np.arange(PICTURES).repeat(CAPTIONS), np.arange(PICTURES * CAPTIONS)] += 1.5
    known = np.random.default_rng(6)
    facts = {}
    for picture in range(PICTURES):
        shown = tuple(name for name in NAMES if known.random() < 0.4)
        nouns = tuple((picture + i) % 5 if picture != 7 else None for i in range(CAPTIONS))
        facts[100 + picture] = PictureFacts(shown, tuple(f"c{picture}-{i}" for i in range(CAPTIONS)), nouns)
    return similarity, facts


def recall_sum(ranks: list[int]) -> float:
    """Ranks from 0, one by one."""
    total = 0.0
    for k in (1, 5, 10):
        total += 100.0 * sum(1 for rank in ranks if rank < k) / len(ranks)
    return total


def written(folder: Path, seed: int = 0, step: int = 40):
    similarity, facts = world(seed)
    write_ranks(folder / "retrieval" / f"val-{step:08d}.csv", similarity, CAPTIONS, facts)
    return similarity, list(facts.values())


def test_categories_by_a_loop_over_pictures(tmp_path):
    similarity, facts = written(tmp_path)
    text, image = sentence_ranks(similarity, CAPTIONS), picture_ranks(similarity, CAPTIONS)
    found = by_category(read_ranks(tmp_path, None))
    assert {one.name for one in found} == set(NAMES)
    assert [one.share for one in found] == sorted((one.share for one in found), reverse=True)
    for one in found:
        own = [picture for picture in range(PICTURES) if one.name in facts[picture].categories]
        captions = [int(image[picture * CAPTIONS + i]) for picture in own for i in range(CAPTIONS)]
        assert one.share == len(own) / PICTURES
        assert one.counts == {"text": len(own), "image": len(captions)}
        assert one.rsum["text"] == pytest.approx(recall_sum([int(text[picture]) for picture in own]), abs=1e-10)
        assert one.rsum["image"] == pytest.approx(recall_sum(captions), abs=1e-10)


def test_nouns_by_a_loop_over_captions(tmp_path):
    similarity, facts = written(tmp_path)
    text, image = sentence_ranks(similarity, CAPTIONS), picture_ranks(similarity, CAPTIONS)
    found = {int(one.name): one for one in by_nouns(read_ranks(tmp_path, None))}
    assert list(found) == sorted(found)
    for count, one in found.items():
        pictures = [p for p in range(PICTURES) if None not in facts[p].nouns and max(facts[p].nouns) == count]
        captions = [p * CAPTIONS + i for p in range(PICTURES) for i in range(CAPTIONS) if facts[p].nouns[i] == count]
        assert one.counts == {"text": len(pictures), "image": len(captions)}
        for way, ranks in (("text", text[pictures].tolist()), ("image", image[captions].tolist())):
            wanted = recall_sum(ranks) if ranks else math.nan
            assert one.rsum[way] == pytest.approx(wanted, abs=1e-10, nan_ok=True)
    assert any(one.counts["text"] == 0 for one in found.values()), "a bin of captions only"


def test_all_pictures_together_score_as_the_task_does(tmp_path):
    similarity, _ = written(tmp_path)
    ranks, scores = read_ranks(tmp_path, None), retrieval_scores(similarity, CAPTIONS)
    assert rsum(p.sentence_rank for p in ranks) == pytest.approx(scores["i2t/rsum"])
    assert rsum(rank for p in ranks for rank in p.picture_ranks) == pytest.approx(scores["t2i/rsum"])
    assert rank_scores(np.array([0, 4, 30]))["rsum"] == pytest.approx(rsum([1, 5, 31]))
    assert math.isnan(rsum([]))


def test_ranks_are_those_of_the_step(tmp_path):
    written(tmp_path, 0, 40)
    written(tmp_path, 1, 80)
    first, last = read_ranks(tmp_path, 40), read_ranks(tmp_path, 80)
    assert first != last
    assert read_ranks(tmp_path, None) == read_ranks(tmp_path, 77) == last
    assert read_ranks(tmp_path / "nothing", 40) is None
    (tmp_path / "retrieval" / "val-00000090.csv").write_text("picture,nouns\n1,2\n")
    with pytest.raises(ReportError, match=r"val-00000090.csv: not a table of ranks"):
        read_ranks(tmp_path, None)


def test_tables_hold_the_mean_over_seeds(tmp_path):
    for seed in range(3):
        written(tmp_path / str(seed), seed)
    ranks = [read_ranks(tmp_path / str(seed), None) for seed in range(3)]
    tables = breakdown_tables({"dot": ranks[:2], "cosine": ranks[2:]})
    assert list(tables) == ["categories-text", "categories-image", "nouns-text", "nouns-image"]
    first = tables["categories-image"].columns[0]
    bins = [by_category(own)[0] for own in ranks]
    assert first.title == f"{bins[0].name} ({100 * bins[0].share:.0f} %)"
    values = [one.rsum["image"] for one in bins]
    assert first.cells["dot"].mean == pytest.approx(np.mean(values[:2]))
    assert first.cells["dot"].std == pytest.approx(np.std(values[:2], ddof=1))
    assert first.cells["cosine"].count == 1
    assert set(breakdown_figures(tables)) == {"breakdown-categories", "breakdown-nouns"}
    assert not breakdown_tables({})


def test_the_report_of_a_run_shows_its_breakdowns(small_run):
    written(small_run)
    page = write_report([small_run])
    text = page.read_text(encoding="utf-8")
    assert "By what the picture shows" in text
    assert "<vehicle>" not in text
    assert "&lt;vehicle&gt;" in text
    folder = page.parent
    for name in ("breakdown-categories", "breakdown-nouns"):
        assert (folder / "figures" / f"{name}.png").stat().st_size > 5000
        for way in ("text", "image"):
            for suffix in ("md", "csv", "tex"):
                assert (folder / f"{name}-{way}.{suffix}").stat().st_size > 50
