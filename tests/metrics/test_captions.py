"""Do captions score what COCO evaluation prints, over any number of batches and processes?"""

import json
import math
from pathlib import Path

import pytest
import torch.distributed as dist
import torch.multiprocessing as mp

from lit_attn.errors import UserError
from lit_attn.metrics.captions import CaptionScores, caption_scores
from lit_attn.ops.cider import DocumentFrequencies
from tests.reference.golden_captions import golden_json

NAMES = ["cider", "bleu1", "bleu2", "bleu3", "bleu4", "rouge_l", "words"]
WORDS = ["a", "the", "dog", "cat", "bird", "chair", "table", "stands", "sleeps", "near", "under", "on", "red", "old"]


def captions(count: int) -> list[tuple[int, str, list[str]]]:
    """Pictures with ids in no order, texts of different lengths, one to three references."""

    def text(seed: int) -> str:
        return " ".join(WORDS[(seed * 7 + place * (seed % 5 + 1)) % len(WORDS)] for place in range(seed % 6 + 2))

    return [((i * 37) % 101, text(i), [text(i + 3 * k) for k in range(i % 3 + 1)]) for i in range(count)]


def scored(rows, batch: int = 4, metric: CaptionScores | None = None) -> CaptionScores:
    metric = metric or CaptionScores()
    for start in range(0, len(rows), batch):
        ids, hypotheses, references = zip(*rows[start : start + batch], strict=True)
        metric.update(ids, hypotheses, references)
    return metric


def test_scores_equal_coco_evaluation_times_a_hundred():
    golden = golden_json("metrics.json")
    items = {item["id"]: (item["id"], item["hypothesis"], item["references"]) for item in golden["items"]}
    for ids, wanted in (
        (list(items), golden["scores"]),
        (golden["short_subset"]["ids"], golden["short_subset"]["scores"]),
    ):
        scores = scored([items[number] for number in ids]).compute()
        assert list(scores) == NAMES
        assert scores["cider"] == pytest.approx(100 * wanted["cider_coco_eval"]["corpus"], abs=1e-7)
        assert [scores[f"bleu{n}"] for n in (1, 2, 3, 4)] == pytest.approx(
            [100 * score for score in wanted["bleu"]["corpus"]], abs=1e-7
        )
        assert scores["rouge_l"] == pytest.approx(100 * wanted["rouge_l"]["corpus"], abs=1e-7)
        assert scores["words"] == sum(len(items[number][1].split()) for number in ids) / len(ids)


def test_given_document_frequencies_add_a_score():
    golden, file = golden_json("metrics.json"), golden_json("prepro/golden-train-words.json")
    counts = {tuple(ngram.split(" ")): times for ngram, times in file["document_frequency"].items()}
    rows = [(item["id"], item["hypothesis"], item["references"]) for item in golden["items"]]
    scores = scored(rows, metric=CaptionScores(DocumentFrequencies(counts, file["ref_len"]))).compute()
    assert scores["cider_train"] == pytest.approx(100 * golden["scores"]["cider_d_cached"]["corpus"], abs=1e-7)
    assert {name: scores[name] for name in NAMES} == scored(rows).compute()


def test_batches_and_order_change_nothing_to_the_bit():
    rows = captions(23)
    wanted = scored(rows, 23).compute()
    assert all(value > 0 for value in wanted.values())
    for batch in (1, 5):
        assert scored(rows[::-1], batch).compute() == wanted


def test_an_empty_set_is_not_a_number():
    scores = CaptionScores().compute()
    assert list(scores) == NAMES
    assert all(map(math.isnan, scores.values()))
    assert "cider_train" in caption_scores([], [], DocumentFrequencies.count([[["a"]]]))


def test_reset_forgets():
    metric = scored(captions(5))
    metric.reset()
    assert metric.gather() == []
    assert scored(captions(7), metric=metric).compute() == scored(captions(7)).compute()


def test_captions_are_handed_out_by_picture():
    assert [captioned.picture_id for captioned in scored(captions(5)).gather()] == [0, 10, 37, 47, 74]


def test_mistakes_are_named():
    with pytest.raises(UserError, match="Picture 7 has no reference captions"):
        CaptionScores().update([3, 7], ["a", "b"], [["a"], []])
    with pytest.raises(ValueError, match="shorter"):
        CaptionScores().update([3, 7], ["a", "b"], [["a"]])
    with pytest.raises(ValueError, match="Picture 37 was captioned twice"):
        scored(captions(5) + captions(2)[1:]).compute()


def work(rank: int, folder: str) -> None:
    """What each of three processes does: shares over three, then over two with one of them empty-handed, then a clash."""
    found = {}
    shares = {
        "three": (3, captions(23)[rank::3]),
        "two": (2, captions(23)[rank::2]),
        "idle": (3, [] if rank == 1 else captions(23)[rank // 2 :: 2]),
        "nobody": (2, []),
        "clash": (2, captions(5)),
    }
    for name, (size, rows) in shares.items():
        if rank >= size:
            continue
        dist.init_process_group("gloo", init_method=f"file://{folder}/{name}", rank=rank, world_size=size)
        try:
            found[name] = scored(rows).compute()
        except ValueError as error:
            found[name] = str(error)
        dist.destroy_process_group()
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found))


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    mp.spawn(work, args=(str(folder),), nprocs=3)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(3)]


@pytest.mark.parametrize(("name", "size"), [("two", 2), ("three", 3), ("idle", 3)])
def test_every_process_computes_what_a_single_one_would_to_the_bit(processes, name, size):
    wanted = scored(captions(23)).compute()
    assert [found[name] for found in processes[:size]] == [wanted] * size


def test_processes_without_any_caption_agree_that_there_is_nothing(processes):
    assert all(math.isnan(found["nobody"]["cider"]) for found in processes[:2])


def test_a_picture_in_two_processes_is_refused_by_both(processes):
    assert all("Picture 0 was captioned twice" in found["clash"] for found in processes[:2])
