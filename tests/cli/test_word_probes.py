"""Are word probes asked of every model that has words, of what it wrote itself, and beside a language model?"""

import json
import math
from pathlib import Path

import pytest
import tokenizers
import transformers

from lit_attn.data.scenes.captioning import ScenesCaptions
from lit_attn.vocabulary import UNKNOWN
from tests.cli.conftest import rows
from tests.cli.test_ddp import parallel
from tests.cli.test_wandb import history

pytestmark = pytest.mark.slow

SHIPPED = str(Path(__file__).parents[2] / "checkpoints" / "captioner_scenes.safetensors")


def heads(folder, stage: str = "val") -> dict[tuple[str, str], list[float]]:
    """Values of heads that something was counted for, by site and metric."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows(folder / "attention" / f"{stage}-00000000.csv"):
        if float(row["count"]):
            found.setdefault((row["site"], row["metric"]), []).append(float(row["value"]))
    return found


@pytest.mark.parametrize(
    ("recipe", "words", "asked"),
    [
        (
            "paragraph",
            ["--data.val_scenes", "5", "--model.max_words", "9"],
            ["decoder.0.self/pos_noun", "decoder.0.self/dep_pobj", "decoder.1.cross/phrase_grounding"],
        ),
        (
            "scan",
            ["--data.val_scenes", "5", "--data.oracle", "false"],
            ["match/phrase_grounding", "match/spatial_relation_target", "match/naming_mass"],
        ),
        (
            "m4c",
            ["--data.val_questions", "17"],
            [
                *("text.0.self/pos_noun", "text.0.self/spatial_landmark_target", "joint.0.self/dep_det"),
                *("joint.0.self/phrase_grounding", "joint.1.self/phrase_ocr", "joint.0.self/object_words"),
                "joint.0.self/spatial_relation_landmark_regions",
            ],
        ),
    ],
)
def test_all_probes_of_a_model_with_words(inside, tmp_path, recipe, words, asked):
    done = inside("validate", f"tiny/{recipe}", "--config", "probes/all", *words, "--run", "a")
    assert done.returncode == 0, done.stderr
    found = heads(tmp_path / "checkpoints" / "a")
    for name in asked:
        site, metric = name.split("/")
        assert all(0 <= value <= 1 for value in found[site, metric]), name
        chance = {"naming_mass": "naming_chance"}.get(metric, f"{metric}_chance")
        assert all(0 < value < 1 for value in found[site, chance]), name


@pytest.mark.parametrize(
    ("recipe", "probes", "reason"),
    [
        ("scan", "pos", "cannot be asked of this network: no site has the attention it is about"),
        ("agreement", "pos", "cannot read a SentenceBatch: it carries no annotated text"),
        ("scan", "own", "Matching writes no captions"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(inside, recipe, probes, reason):
    words = ["--trainer.callbacks", "[]", "--config", f"probes/{probes}", "--trainer.limit_val_batches", "1"]
    done = inside("validate", f"tiny/{recipe}", *words)
    assert done.returncode == 2
    assert reason in done.stderr


OWN = ["--config", "probes/own", "--data.val_scenes", "7", "--model.max_words", "14"]


def test_what_the_captioner_wrote_is_probed(inside, tmp_path):
    """The shipped weights write sentences of the grammar, so that nearly all texts are annotated."""
    done = inside("validate", "captioner_scenes", *OWN[:4], "--from_weights", SHIPPED, "--run", "a")
    assert done.returncode == 0, done.stderr
    gold, own = (heads(tmp_path / "checkpoints" / "a", stage) for stage in ("val", "val_own"))
    assert sum(own["decoder.1.cross", "phrase_grounding"]) > 2 * sum(own["decoder.1.cross", "phrase_grounding_chance"])
    assert ("decoder.1.self", "dep_det") in own
    assert ("decoder.1.self", "dep_det") not in gold
    (scores,) = rows(tmp_path / "checkpoints" / "a" / "metrics.csv")
    assert 0 < float(scores["val_own/attention/decoder.0.self/pos_det"]) < 1


def test_untrained_models_write_nothing_that_is_understood_and_that_is_said(inside, tmp_path):
    done = inside("validate", "tiny/captioner", *OWN, "--run", "a")
    assert done.returncode == 0, done.stderr
    assert "7 of 7 texts that were written could not be annotated" in done.stderr
    assert not heads(tmp_path / "checkpoints" / "a", "val_own")


EXACT = ("site", "head", "metric", "count", "finding", "sites", "n", "table", "target", "source", "rows", "step")


@pytest.mark.parametrize("overlay", ["all", "own"])
def test_word_probes_over_1_2_and_3_processes_agree(lit_attn, inside, tmp_path, overlay):
    """Thirteen pictures: no number of processes divides them. Counts exactly, values to 1e-9, in every table."""
    words = ["--config", f"probes/{overlay}", "--from_weights", SHIPPED, "--data.val_scenes", "13"]
    words += ["--data.eval_batch_size", "4", "--trainer.precision", "64-true"]

    def tables(count: int, run) -> dict[str, list[dict[str, str]]]:
        done = run("validate", "captioner_scenes", *words, *parallel(count), "--run", f"p{count}")
        assert done.returncode == 0, done.stderr
        folder = tmp_path / "checkpoints" / f"p{count}"
        return {path.name: rows(path) for path in (folder / "metrics.csv", *(folder / "attention").glob("*.csv"))}

    one = tables(1, inside)
    assert len(one) == (4 if overlay == "all" else 5)
    for count in (2, 3) if overlay == "all" else (3,):
        other = tables(count, lit_attn)
        assert other.keys() == one.keys()
        for name in one:
            assert len(other[name]) == len(one[name]), name
            for first, second in zip(one[name], other[name], strict=True):
                for column, value in first.items():
                    if column in EXACT:
                        assert second[column] == value, (name, first)
                    elif not math.isnan(float(value)):
                        assert float(second[column]) == pytest.approx(float(value), abs=1e-9), (name, column, first)


def test_wandb_holds_heat_maps_findings_and_tables_of_words(lit_attn, tmp_path):
    words = ["--data.val_scenes", "5", "--model.max_words", "9", "--config", "probes/all", "--wandb", "--run", "w"]
    done = lit_attn("validate", "tiny/captioner", *words)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "checkpoints" / "w"
    everything = {key: value for row in history(folder)[0] for key, value in row.items()}
    (offline,) = folder.glob("wandb/offline-run-*")
    for name, columns in (
        ("findings", ["finding", "sites", "n", "r", "p", "permutation_p"]),
        ("tables", ["table", "site", "target", "source", "value", "chance", "rows"]),
    ):
        table = json.loads((offline / "files" / everything[f"val/attention/{name}/path"]).read_text())
        wanted = rows(folder / "attention" / f"val-00000000-{name}.csv")
        assert table["columns"] == columns
        assert [[str(cell) for cell in row[:2]] for row in table["data"]] == [list(row.values())[:2] for row in wanted]
        place = columns.index("n" if name == "findings" else "value")
        assert [row[place] for row in table["data"]] == pytest.approx([float([*r.values()][place]) for r in wanted])
    picture = offline / "files" / everything["val/attention/map/path"]
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert picture.stat().st_size > 10_000


def whole_words(folder: Path) -> None:
    """A tiny language model that has one token per word, and START."""
    words = ("<s>", *ScenesCaptions().vocabulary.words)
    model = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token=UNKNOWN)
    )
    model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    transformers.PreTrainedTokenizerFast(tokenizer_object=model, bos_token=words[0]).save_pretrained(folder)
    config = transformers.GPT2Config(vocab_size=len(words), n_embd=24, n_layer=2, n_head=6, n_positions=64)
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)


def test_a_captioner_beside_a_language_model(inside, tmp_path):
    """Even attention knows nothing of a model: on the same words and rows it must score the same for both."""
    whole_words(tmp_path / "lm")
    words = ["tiny/captioner", "--config", "probes/all", "--data.val_scenes", "5", "--model.max_words", "9"]
    found = {}
    for align in ("predict", "input"):
        done = inside("compare", *words, "--against", "lm", "--align", align, "--run", align)
        assert done.returncode == 0, done.stderr
        folder = tmp_path / "checkpoints" / align
        assert "| pos\\_noun |" in (folder / "report" / "heads.md").read_text()
        ours, theirs = heads(folder), heads(folder / "against")
        assert (len(ours["decoder.0.self", "pos_noun"]), len(theirs["decoder.0.self", "pos_noun"])) == (2, 6)
        chances = [(site, metric) for site, metric in theirs if metric.endswith("_chance")]
        assert len(chances) > 40
        for site, metric in chances:
            assert theirs[site, metric][0] == pytest.approx(ours[site, metric][0], abs=1e-6), (align, site, metric)
        found[align] = theirs["decoder.0.self", "pos_noun"]
    assert found["predict"] != found["input"]
    refused = inside("compare", *words)
    assert refused.returncode == 2
    assert "needs a language model: --against" in refused.stderr
    refused = inside("compare", "tiny/scan", "--config", "probes/all", "--against", "none.gguf")
    assert "There is no file none.gguf" in refused.stderr
