"""How does a language model read annotated texts, so that word probes can be asked of it?

    model = read_language_model("FOLDER/model.gguf")     # or a folder, or an id of the hub
    board = Board(model.net, [PartOfSpeech(align="input"), Dependencies("input")])
    for batch in model.batches(annotations):
        with board.listening(batch):
            model.net(input_ids=batch.tokens, attention_mask=batch.token_mask.long())
    board.values()

Words are joined by blanks and cut into the model's pieces; the first token is no source, because language models leave there
what they do not need. A text that is longer than the model's limit is cut, and the words that are left count.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lit_attn.adapters.adapter import Adapter
from lit_attn.adapters.load import adapt
from lit_attn.errors import UserError
from lit_attn.types import Annotation, TextBatch


@dataclass(frozen=True)
class LanguageModel:
    """A network that tapes hear, and its tokenizer."""

    net: Adapter
    tokenizer: Any
    longest: int
    """In tokens."""

    def batches(
        self, annotations: Sequence[Annotation], names: Sequence[str] = (), size: int = 32
    ) -> Iterator[TextBatch]:
        """The texts in pieces, `size` at a time; `names` are their sample ids."""
        known = list(names) or [str(i) for i in range(len(annotations))]
        for start in range(0, len(annotations), size):
            yield self.batch(annotations[start : start + size], known[start : start + size])

    def batch(self, annotations: Sequence[Annotation], names: Sequence[str]) -> TextBatch:
        rows = [self._pieces(annotation, name) for annotation, name in zip(annotations, names, strict=True)]
        width = max(len(ids) for ids, _ in rows)
        tokens = torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in rows])
        word_of = torch.tensor([words + [-1] * (width - len(words)) for _, words in rows])
        mask = torch.tensor([[i < len(ids) for i in range(width)] for ids, _ in rows])
        return TextBatch(tokens, mask, word_of, tuple(annotations), tuple(names), drop_first=True)

    def _pieces(self, annotation: Annotation, name: str) -> tuple[list[int], list[int]]:
        ids: list[int] = []
        words: list[int] = []
        for i, word in enumerate(annotation.tokens):
            pieces = self.tokenizer.encode(word if i == 0 else f" {word}", add_special_tokens=False)
            ids += pieces
            words += [i] * len(pieces)
        if not ids:
            raise UserError(f"The text {name} has no words for this model. Leave it out.")
        return ids[: self.longest], words[: self.longest]


def read_language_model(name: str) -> LanguageModel:
    """A causal language model of `transformers`: a folder, an id of the hub, or a GGUF file (extra `gguf`)."""
    import transformers

    path = Path(name).expanduser()
    source, options = (str(path.parent), {"gguf_file": path.name}) if path.suffix == ".gguf" else (name, {})
    if options and not path.exists():
        raise UserError(f"There is no file {name}.")
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(source, attn_implementation="eager", **options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, **options)
    except ImportError as error:
        raise UserError(f'{name} needs a package that is missing: {error}. pip install "lit_attn[gguf]"') from error
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(
            f"{name!r} cannot be loaded: {first} Name a folder, a GGUF file, or an id of the hub."
        ) from error
    limit = int(getattr(model.config, "max_position_embeddings", 1024))
    net: torch.nn.Module = model
    return LanguageModel(adapt(net.eval()), tokenizer, limit)
