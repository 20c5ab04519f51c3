"""Is a published BERT converted, fine-tuned, resumed to the bit, compared and explained?"""

import csv
import json
import signal

import pytest
import torch

from lit_attn.checkpoint import read_weights
from lit_attn.tasks.sentences import SentenceTask
from lit_attn.tasks.sentiment import Sentiment
from tests.cli.conftest import rows, run_inside
from tests.cli.test_resume import compare

TINY = ["tiny/sentiment", "--data.train_sentences", "24"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "fine", "dull", "film", "plot", "of", "no"]
SIZES = [
    *("--model.dim", "12", "--model.num_heads", "2", "--model.hidden", "11", "--model.layers", "3"),
    *("--model.max_positions", "17"),
]
SHORT = ["--trainer.max_epochs", "1", "--data.batch_size", "2", "--model.lr", "1e-3"]


def test_stopped_and_resumed_it_is_the_same(inside, tmp_path, monkeypatch):
    fit = ["fit", *TINY, "--checkpoint_every", "1"]
    done = inside(*fit, "--run", "whole")
    assert done.returncode == 0, done.stderr
    step = Sentiment.training_step

    def failing(task, batch, batch_idx):
        if task.global_step == 4:
            raise OSError("the power went")
        return step(task, batch, batch_idx)

    with monkeypatch.context() as patched:
        patched.setattr(Sentiment, "training_step", failing)
        assert inside(*fit, "--run", "parts").returncode == 1
    done = inside(*fit, "--run", "parts", "--resume", "auto")
    assert done.returncode == 0, done.stderr
    whole, parts = (
        torch.load(tmp_path / "checkpoints" / n / "last.ckpt", weights_only=True) for n in ("whole", "parts")
    )
    assert whole["global_step"] == parts["global_step"] == 6
    for name, tensor in whole["state_dict"].items():
        assert torch.equal(tensor, parts["state_dict"][name]), name
    done = inside("correlate", "whole", "--samples", "5", "--out", "found")
    assert done.returncode == 0, done.stderr
    assert "whole on the grammar, 5 sentences" in done.stdout


@pytest.mark.parametrize("recipe", ["tiny/sentiment", "tiny/agreement"])
def test_a_sigterm_at_any_moment_changes_nothing(inside, tmp_path, monkeypatch, recipe):
    """One run that is told six times: in the first and the last step of an epoch, in a validation, and in a write."""
    fit = ["fit", recipe, "--data.train_sentences", "24"]
    assert inside(*fit, "--run", "whole").returncode == 0
    moments = [("training_step", 1), ("training_step", 2), ("validation_step", 2), ("on_save_checkpoint", 1)]
    for moment, number in [*moments, ("training_step", 1), ("on_validation_epoch_end", 1)]:
        with monkeypatch.context() as patched:
            told_at(patched, moment, number)
            done = inside(*fit, "--run", "parts", "--resume", "auto")
        assert done.returncode == 143, (moment, number, done.stderr)
    done = inside(*fit, "--run", "parts", "--resume", "auto")
    assert done.returncode == 0, done.stderr
    compare(tmp_path / "checkpoints" / "whole", tmp_path / "checkpoints" / "parts")


def told_at(patched, moment, number) -> None:
    """The process gets SIGTERM in one call of a hook of the task."""
    hook, calls = getattr(SentenceTask, moment), []

    def telling(task, *rest):
        calls.append(moment)
        if len(calls) == number:
            signal.raise_signal(signal.SIGTERM)
        return hook(task, *rest)

    patched.setattr(SentenceTask, moment, telling)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A folder with a tiny BERT, files like those of SST-2, and the BERT converted."""
    from transformers import BertConfig, BertModel, BertTokenizerFast

    from lit_attn.data.sst2 import FILES

    folder = tmp_path_factory.mktemp("reviews")
    (folder / "vocab.txt").write_text("\n".join(PIECES))
    config = BertConfig(
        vocab_size=len(PIECES), hidden_size=12, num_hidden_layers=3, num_attention_heads=2, intermediate_size=11,
        max_position_embeddings=17,
    )  # fmt: skip
    torch.manual_seed(0)
    BertModel(config).save_pretrained(folder / "bert")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder / "bert")
    for file in FILES.values():
        text = "1,a fine film\n0,a dull plot\n1,a fine plot of a film\n0,no plot\n0,a dull dull film of no plot\n"
        (folder / file).write_text("label,sentence\n" + text)
    done = run_inside(folder, "convert", "bert", "bert")
    assert done.returncode == 0, done.stderr
    assert "--from_weights bert.safetensors" in done.stdout
    fit = ["fit", "sentiment_sst2", "--data.root", ".", "--data.tokenizer", "bert", *SIZES, *SHORT]
    done = run_inside(folder, *fit, "--from_weights", "bert.safetensors", "--run", "a", "--model.lr", "0")
    assert done.returncode == 0, done.stderr
    assert "kept 53, created 4" in " ".join(done.stderr.split()), "pooler and output are new, and nothing else"
    return folder


def test_the_published_layers_are_those_of_the_run(world):
    from safetensors.torch import load_file

    from lit_attn.nn.bert import renamed

    published = renamed(load_file(world / "bert" / "model.safetensors"))
    own = read_weights(world / "checkpoints" / "a" / "last.ckpt").tensors
    for name, tensor in published.items():
        ours = f"net.{name.replace('embed.', 'embedding.', 1) if name.startswith('embed.') else name}"
        assert torch.equal(own[ours], tensor), name
    scores = rows(world / "checkpoints" / "a" / "metrics.csv")[-1]
    assert float(scores["val/majority_accuracy"]) == pytest.approx(3 / 5)


def test_it_is_compared_with_table_3(world):
    done = run_inside(world, "correlate", "a", "--data", ".", "--samples", "5", "--rows", "max", "--out", "found")
    assert done.returncode == 0, done.stderr
    assert "a on SST-2, test, 5 sentences, against gradient" in done.stdout
    with (world / "found" / "correlations.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 3 * 3 * 2 * 2
    done = run_inside(world, "correlate", "a", "--samples", "5", "--out", "found")
    assert done.returncode == 2
    assert "name the folder of its three files with --data" in done.stderr


def test_it_is_explained_and_predicts(world):
    done = run_inside(world, "explain", "a", "--methods", "rollout,gae,t_attr,gradient", "--samples", "3", "--out", "e")
    assert done.returncode == 0, done.stderr
    maps = json.loads((world / "e" / "maps.json").read_text())["maps"]
    assert {one["explained"] for one in maps} <= {"negative", "positive"}
    assert maps[0]["items"] == {"words": ["[CLS]", "a", "fine", "film", "[SEP]"]}
    last = str(world / "checkpoints" / "a" / "last.ckpt")
    done = run_inside(
        world, "predict", "sentiment_sst2", "--data.root", ".", "--data.tokenizer", "bert", *SIZES, "--ckpt_path", last,
        "--run", "p", "--data.sentences", "no fine film",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (row,) = map(json.loads, (world / "checkpoints" / "p" / "predictions.jsonl").read_text().splitlines())
    assert row["sentence"] == "no fine film"
    assert row["answer"] in ("negative", "positive")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["convert", "bert", "."], "The folder . has no config.json. A BERT needs config.json and model.safetensors"),
        (["fit", "sentiment_sst2", "--data.root", "nowhere"], "Cannot read the sentences nowhere"),
        (["fit", *TINY, "--model.word_dropout", "1"], "word_dropout is a share of the words"),
    ],
)
def test_mistakes_are_named(inside, words, message):
    done = inside(*words)
    assert done.returncode == 2, done.stderr
    assert message in " ".join(done.stderr.split())
