"""Which classifier is compared, on which sentences? Weights of ours or of Hugging Face become one kind of subject."""

import argparse
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from torch import Tensor, nn

from lit_attn.adapters.encoder import EncoderAdapter
from lit_attn.adapters.load import load
from lit_attn.attribution.correlations import Classifier, Run, Sentences
from lit_attn.attribution.plans import plan_of
from lit_attn.checkpoint import SUFFIXES, read_weights, transfer
from lit_attn.data.agreement_grammar import AgreementGrammar, grammar_words
from lit_attn.data.labelled_sentences import SentenceData, WordedSentenceData
from lit_attn.data.linzen import Linzen
from lit_attn.data.sst2 import Sst2, read_sst2
from lit_attn.errors import UserError
from lit_attn.run.checkpoint_io import load_checkpoint
from lit_attn.tasks.agreement import Agreement
from lit_attn.tasks.sentences import SentenceTask
from lit_attn.tasks.sentiment import Sentiment

BATCH = 32
TASKS: dict[str, type[SentenceTask]] = {f"{kind.__module__}.{kind.__name__}": kind for kind in (Agreement, Sentiment)}
SPLIT_SETTINGS = ("train_share", "val_share", "seed")


@dataclass(frozen=True)
class Subject:
    """A classifier with its sentences."""

    classifier: Classifier
    batches: list[Sentences]
    title: str
    published: str | None = None
    """Whose published values may stand beside: `linzen` or `sst2`."""


def opened(given: argparse.Namespace) -> Subject:
    return _foreign(given) if given.model.startswith(("hf:", "timm:")) else _own(given)


def drawn(count: int, wanted: int) -> list[int]:
    """So many places out of `count`, always the same, in order."""
    return sorted(random.Random(0).sample(range(count), min(wanted, count)))


# Our own network.


def _own(given: argparse.Namespace) -> Subject:
    path = _weights_file(given.model)
    weights = read_weights(path)
    kind = TASKS.get(weights.task or f"{Agreement.__module__}.{Agreement.__name__}")
    if kind is None or "num_answers" not in weights.hyperparameters or weights.words is None:
        raise UserError(
            f"{path} holds no classifier of sentences but {weights.task or 'something else'}. Compare one of those, or "
            "hf:FOLDER."
        )
    task = kind(**weights.hyperparameters)
    transfer(weights, task, strict=True)
    data = _reviews(given, path) if kind is Sentiment else _sentences(given, path, weights.words)
    dataset: Any = data.dataset("test")
    chosen = [dataset[i] for i in drawn(len(dataset), given.samples)]
    batches = []
    for start in range(0, len(chosen), BATCH):
        batch = data.collate(chosen[start : start + BATCH])
        batches.append(Sentences(batch.tokens, batch.token_mask, batch.answer))
    natural = isinstance(data, Linzen) and given.kinds == "natural"
    return Subject(
        Classifier(task.net, plan_of(task.net), _run_own, data.unknown),
        batches,
        f"{given.model} on {_named(data, given)}",
        "linzen" if natural else "sst2" if isinstance(data, Sst2) else None,
    )


def _named(data: SentenceData, given: argparse.Namespace) -> str:
    if isinstance(data, Linzen):
        return f"Linzen, {given.kinds}"
    return "SST-2, test" if isinstance(data, Sst2) else "the grammar"


def _run_own(net: nn.Module, tokens: Tensor, mask: Tensor) -> Run:
    embedded = net.embed(tokens)  # type: ignore[operator]
    return Run(net.classify(embedded, mask), embedded)  # type: ignore[operator]


def _weights_file(name: str) -> Path:
    path = Path(name)
    if path.is_dir() and (path / "best.ckpt").exists():
        return path / "best.ckpt"
    if path.suffix in SUFFIXES:
        return path
    candidates = (Path("checkpoints") / f"{name}.safetensors", Path("checkpoints") / name / "best.ckpt")
    for candidate in candidates:
        if candidate.exists():
            return candidate
    raise UserError(
        f"There is no model {name!r}: neither {' nor '.join(map(str, candidates))} exists. Name a run folder, a file of "
        "weights, or hf:FOLDER."
    )


def _sentences(given: argparse.Namespace, path: Path, words: tuple[str, ...]) -> WordedSentenceData:
    if given.data is not None:
        return Linzen(str(given.data), vocabulary=str(path), eval_kinds=given.kinds, **_split_of_run(path))
    if words != grammar_words().words:
        raise UserError("These weights read Linzen's sentences: name the folder of numpred.* files with --data.")
    return AgreementGrammar(test_sentences=max(given.samples, 1))


def _split_of_run(path: Path) -> dict[str, Any]:
    """How a run split its sentences: none that it was trained on may be compared on."""
    settings = _settings_of_run(path)
    return {name: settings[name] for name in SPLIT_SETTINGS if name in settings}


def _settings_of_run(path: Path) -> dict[str, Any]:
    """Of its data; nothing is known of a file of weights alone."""
    if path.suffix == ".safetensors":
        return {}
    config = yaml.safe_load(load_checkpoint(path).get("config") or "{}")
    return (config.get("data") or {}).get("init_args") or {}


def _reviews(given: argparse.Namespace, path: Path) -> SentenceData:
    """The test sentences of SST-2, or the grammar's where these were trained on."""
    settings = _settings_of_run(path)
    if given.data is None:
        if "root" in settings:
            raise UserError("These weights read SST-2: name the folder of its three files with --data.")
        return AgreementGrammar(test_sentences=max(given.samples, 1))
    return Sst2(
        str(given.data),
        tokenizer=settings.get("tokenizer"),
        vocabulary=str(path),
        max_tokens=min(given.max_tokens, int(settings.get("max_tokens") or given.max_tokens)),
    )


# Hugging Face.


def _foreign(given: argparse.Namespace) -> Subject:
    loaded = load(given.model)
    net, tokenizer = loaded.net, loaded.processor
    labels = getattr(getattr(net.model, "config", None), "num_labels", 0)
    if not isinstance(net, EncoderAdapter) or "SequenceClassification" not in type(net.model).__name__:
        raise UserError(
            f"{given.model} is no classifier of the BERT family but {type(net.model).__name__}. Name a folder that was saved "
            "from a model for sequence classification."
        )
    if tokenizer is None:
        raise UserError(f"{given.model} has no tokenizer. Put its tokenizer.json or vocab.txt into the folder.")
    if given.data is None:
        raise UserError("Name a CSV with the columns label and sentence with --data.")
    judged = read_sst2(given.data)
    for one in judged:
        if one.label >= labels:
            raise UserError(f"{one.sample_id} has class {one.label}, but {given.model} knows {labels} classes.")
    chosen = [judged[i] for i in drawn(len(judged), given.samples)]
    batches = []
    for start in range(0, len(chosen), BATCH):
        part = chosen[start : start + BATCH]
        encoded = tokenizer(
            [one.text for one in part],
            return_tensors="pt",
            padding=True,
            truncation=True,
            max_length=min(given.max_tokens, _positions(net.model)),
        )
        classes = torch.tensor([one.label for one in part])
        batches.append(Sentences(encoded["input_ids"], encoded["attention_mask"].bool(), classes))
    unknown = tokenizer.unk_token_id
    if unknown is None:
        raise UserError(f"The tokenizer of {given.model} has no unknown token to blank words out with.")
    return Subject(
        Classifier(net, net.plan(), _run_foreign, int(unknown)), batches, f"{given.model} on {given.data.name}"
    )


def _positions(model: nn.Module) -> int:
    return int(getattr(model.config, "max_position_embeddings", 512))


def _run_foreign(net: nn.Module, tokens: Tensor, mask: Tensor) -> Run:
    with net.embedded() as found:  # type: ignore[operator]
        logits = net(input_ids=tokens, attention_mask=mask.long()).logits
    return Run(logits, found["text"])
