"""Do a phrase and a description mean the same to a network of the BERT family? BERTScore F1, or one vector per text.

- `BertScore`: tokens of the last layer, each matched with the most similar one of the other text. Special tokens ([CLS],
  [SEP]) have no part in it. The public package takes a layer chosen for each network, and lets words match special tokens.
- `SentenceEncoder`: the mean over all tokens of the last layer, special ones included, as sentence encoders are trained, and the
  cosine.

A folder holds `config.json`, weights and a tokenizer, as Hugging Face saves them. Nothing in it runs as code.
"""

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from lit_attn.data.linking.linker import Linker, PhraseWords, Scores
from lit_attn.errors import UserError
from lit_attn.ops.linking import cosines, greedy_f1

AT_ONCE = 64
KEPT_TEXTS = 16384
"""Encodings that are remembered."""


class Encoded(NamedTuple):
    """One text."""

    tokens: Float[np.ndarray, "t d"]
    special: Bool[np.ndarray, " t"]


class Encoder:
    """A network that turns texts into vectors of their tokens; each text is read once."""

    def __init__(self, folder: Path) -> None:
        import transformers
        from safetensors import SafetensorError

        if not (folder / "config.json").is_file():
            raise UserError(
                f"{folder} is no folder of a network: it has no config.json. Name one as Hugging Face saves it, with "
                "config.json, model.safetensors and a tokenizer."
            )
        try:
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
            self._model, report = transformers.AutoModel.from_pretrained(
                str(folder), local_files_only=True, output_loading_info=True
            )
        except (OSError, ValueError, KeyError, ImportError, SafetensorError) as error:
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UserError(f"The network in {folder} cannot be loaded: {first}") from error
        missing = [name for name in report["missing_keys"] if not name.startswith("pooler.")]
        if missing:
            raise UserError(f"The weights in {folder} lack {', '.join(sorted(missing)[:3])}, which would be random.")
        self._model.eval()
        positions = getattr(self._model.config, "max_position_embeddings", None) or 512
        self._longest = max(1, min(self._tokenizer.model_max_length, positions - 2))
        self._known: dict[str, Encoded] = {}

    def __call__(self, texts: Sequence[str]) -> list[Encoded]:
        missing = sorted({text for text in texts if text not in self._known}, key=len)
        if len(self._known) + len(missing) > KEPT_TEXTS:
            self._known = {text: self._known[text] for text in texts if text in self._known}
        for start in range(0, len(missing), AT_ONCE):
            self._read(missing[start : start + AT_ONCE])
        return [self._known[text] for text in texts]

    def _read(self, texts: list[str]) -> None:
        import torch

        given = self._tokenizer(
            texts,
            padding=True,
            truncation=True,
            max_length=self._longest,
            return_tensors="pt",
            return_special_tokens_mask=True,
        )
        special = given.pop("special_tokens_mask").bool().numpy()
        with torch.inference_mode():
            states = self._model(**given).last_hidden_state.float().numpy()
        present = given["attention_mask"].bool().numpy()
        for text, vectors, kept, marked in zip(texts, states, present, special, strict=True):
            self._known[text] = Encoded(vectors[kept], marked[kept])


class Encoding(Linker):
    """A linker that asks a network."""

    name: str

    def __init__(self, encoder: Encoder, source: str) -> None:
        self.identity = f"{self.name} {source}"
        self._encoder = encoder

    def read_ahead(self, phrases: Iterable[PhraseWords], descriptions: Iterable[str]) -> None:
        texts = {phrase.text for phrase in phrases} | {text.lower() for text in descriptions if text.split()}
        self._encoder(sorted(texts))


class BertScore(Encoding):
    """F1 of greedily matched tokens."""

    name = "bertscore"

    def compare(self, phrases: Sequence[PhraseWords], descriptions: Sequence[str]) -> Scores:
        own, others = self._padded([phrase.text for phrase in phrases]), self._padded(descriptions)
        return greedy_f1(*own, *others)

    def _padded(self, texts: Sequence[str]) -> tuple[Float[np.ndarray, "n t d"], Bool[np.ndarray, "n t"]]:
        found = [one.tokens[~one.special] for one in self._encoder(texts)]
        longest = max(1, *(len(tokens) for tokens in found))
        vectors = np.zeros((len(found), longest, found[0].shape[1]), np.float32)
        mask = np.zeros(vectors.shape[:2], bool)
        for i, tokens in enumerate(found):
            vectors[i, : len(tokens)], mask[i, : len(tokens)] = tokens, True
        return vectors, mask


class SentenceEncoder(Encoding):
    """The cosine of mean vectors."""

    name = "sentence"

    def compare(self, phrases: Sequence[PhraseWords], descriptions: Sequence[str]) -> Scores:
        own, others = (
            np.stack([one.tokens.astype(np.float64).mean(0) for one in self._encoder(texts)])
            for texts in ([phrase.text for phrase in phrases], descriptions)
        )
        return cosines(own, others)


def check_sum(file: Path, expected: str) -> None:
    """A file of a package by somebody else must be the one that was looked at."""
    with file.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if found != expected:
        raise UserError(
            f"{file} has the sha256 {found}, not {expected}: it is not the published file. Install it again."
        )
