"""How do pictures with any number of captions become batches? Shared by every data set that a captioner can train on.

A sample is a picture with all its captions, in training, too: the encoder sees each picture once per step. Ids are
`[0, words, 0]`, cut at `max_words`; `references` stay whole.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from lit_attn.data.pictures import PictureData
from lit_attn.errors import UserError
from lit_attn.vocabulary import END, CaptionWords


def caption_ids(words: CaptionWords, tokens: Iterable[str], max_words: int) -> tuple[int, ...]:
    """START, the first `max_words` words, END."""
    return (END, *words.encode(tokens)[:max_words], END)


class CaptioningData(PictureData, ABC):
    """A data set of captions or paragraphs."""

    def __init__(self, max_words: int, batch_size: int, eval_batch_size: int, num_workers: int, seed: int) -> None:
        super().__init__(batch_size, eval_batch_size, num_workers, seed)
        if max_words < 1:
            raise UserError(f"data.max_words must be at least 1, got {max_words}.")
        self.max_words = max_words

    @property
    @abstractmethod
    def vocabulary(self) -> CaptionWords: ...

    @abstractmethod
    def training_references(self) -> Iterable[tuple[str, ...]]:
        """All captions of each training picture, whole: what document frequencies are counted over."""

    def ids_of(self, tokens: Iterable[str]) -> tuple[int, ...]:
        """START, the first `max_words` words, END."""
        return caption_ids(self.vocabulary, tokens, self.max_words)
