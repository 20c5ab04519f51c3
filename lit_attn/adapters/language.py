"""How does a language model read annotated texts, so that word probes can be asked of it?

    model = read_language_model("FOLDER/model.gguf")     # or a folder, or an id of the hub
    board = Board(model.net, [PartOfSpeech(align="input"), Dependencies("input")])
    for batch in model.batches(annotations):
        with board.listening(batch):
            model.read(batch)
    board.values()

Words are joined by blanks and cut into the model's pieces, which are given to words by the characters that both cover. A causal
model reads its START token first, if it has one, as a captioner does; START is no word and so no source. If it has none, the
first piece is no source, because language models leave there what they do not need. Models like BERT read the tokens that they
put around a text. A text that is longer than the model's limit is cut, and the words that are left count.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lit_attn.adapters import encoder
from lit_attn.adapters.adapter import Adapter
from lit_attn.adapters.load import adapt
from lit_attn.errors import UserError
from lit_attn.language.pieces import NO_WORD, word_offsets, words_of_pieces
from lit_attn.types import Annotation, TextBatch

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LanguageModel:
    """A network that tapes hear, and its tokenizer."""

    net: Adapter
    tokenizer: Any
    longest: int
    """In tokens."""
    causal: bool = True
    """Whether words see only the words before them."""
    opened: bool = True
    """Whether a causal model reads its START token first, if it has one."""

    def batches(
        self,
        annotations: Sequence[Annotation],
        names: Sequence[str] = (),
        size: int = 32,
        words: Sequence[int] | None = None,
    ) -> Iterator[TextBatch]:
        """The texts in pieces, `size` at a time; `names` are their sample ids, `words` how many words of each are read."""
        known = list(names) or [str(i) for i in range(len(annotations))]
        read = [len(annotation) for annotation in annotations] if words is None else list(words)
        cut = 0
        for start in range(0, len(annotations), size):
            some = slice(start, start + size)
            batch = self.batch(annotations[some], known[some], read[some])
            cut += sum(int(n) + 1 < wanted for n, wanted in zip(batch.word_of.amax(-1), read[some], strict=True))
            yield batch
        if cut:
            log.warning("%d of %d texts are longer than the model's %d tokens and cut.", cut, len(read), self.longest)

    def batch(
        self, annotations: Sequence[Annotation], names: Sequence[str], words: Sequence[int] | None = None
    ) -> TextBatch:
        read = [len(annotation) for annotation in annotations] if words is None else words
        rows = [self._pieces(a, name, n) for a, name, n in zip(annotations, names, read, strict=True)]
        width = max(len(ids) for ids, _ in rows)
        tokens = torch.tensor([ids + [0] * (width - len(ids)) for ids, _ in rows])
        word_of = torch.tensor([own + [NO_WORD] * (width - len(own)) for _, own in rows])
        mask = torch.tensor([[i < len(ids) for i in range(width)] for ids, _ in rows])
        drop_first = self.causal and self._start is None
        return TextBatch(tokens, mask, word_of, tuple(annotations), tuple(names), drop_first)

    def read(self, batch: TextBatch) -> None:
        """One pass, for tapes to hear."""
        with torch.no_grad():
            self.net(input_ids=batch.tokens, attention_mask=batch.token_mask.long())

    @property
    def _start(self) -> int | None:
        return self.tokenizer.bos_token_id if self.causal and self.opened else None

    def _pieces(self, annotation: Annotation, name: str, words: int) -> tuple[list[int], list[int]]:
        """Ids, and of each the word that it is a piece of."""
        tokens = annotation.tokens[:words]
        found = self.tokenizer(
            " ".join(tokens), add_special_tokens=not self.causal, return_offsets_mapping=True, verbose=False
        )
        own = words_of_pieces(found["offset_mapping"], word_offsets(tokens))
        if all(word == NO_WORD for word in own):
            raise UserError(f"The text {name} has no words for this model: {' '.join(tokens)[:60]!r}. Leave it out.")
        first = [] if self._start is None else [self._start]
        ids = [*first, *found["input_ids"]]
        return ids[: self.longest], [*[NO_WORD] * len(first), *own][: self.longest]


def read_language_model(name: str, opened: bool = True) -> LanguageModel:
    """A language model of `transformers`, causal or like BERT: a folder, an id of the hub, or a GGUF file (extra `gguf`)."""
    import transformers

    path = Path(name).expanduser()
    source, options = (str(path.parent), {"gguf_file": path.name}) if path.suffix == ".gguf" else (name, {})
    if options and not path.exists():
        raise UserError(f"There is no file {name}.")
    try:
        config = transformers.AutoConfig.from_pretrained(source, **options)
        causal = config.model_type not in encoder.FAMILIES
        kind = transformers.AutoModelForCausalLM if causal else transformers.AutoModel
        model = kind.from_pretrained(source, attn_implementation="eager", **options)
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, **options)
    except ImportError as error:
        told = str(error).strip().removesuffix(".")
        raise UserError(f'{name} needs a package that is missing: {told}. pip install "lit_attn[gguf]"') from error
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[0]
        raise UserError(
            f"{name!r} cannot be loaded: {first} Name a folder, a GGUF file, or an id of the hub."
        ) from error
    if not tokenizer.is_fast:
        raise UserError(
            f"The tokenizer of {name!r} does not say where its pieces lie in a text. Add its tokenizer.json to the folder."
        )
    limit = min(int(getattr(model.config, "max_position_embeddings", 1024)), tokenizer.model_max_length)
    net: torch.nn.Module = model
    return LanguageModel(adapt(net.eval()), tokenizer, limit, causal, opened)
