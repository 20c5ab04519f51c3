"""What must be remembered to score retrieval over a whole set? Every picture's regions and every caption's words.

Similarities of all pairs need all embeddings at once; over several processes each gathers the others'. Vectors are kept
one after the other without padding, so the words of 25,000 captions of width 1024 take about 1.3 GB.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat


class Bank(NamedTuple):
    """Embeddings of a whole set, in the order of their ids."""

    regions: Float[Tensor, "b r d"]
    region_mask: Bool[Tensor, "b r"]
    words: Float[Tensor, "n d"]
    lengths: Int[Tensor, " c"]
    image_id: Int[Tensor, " b"]


class EmbeddingBank(Metric):
    """Collects embeddings over batches and processes; `compute` hands them out sorted by id."""

    full_state_update = False
    image_id: list[Tensor]
    regions: list[Tensor]
    region_count: list[Tensor]
    caption_id: list[Tensor]
    words: list[Tensor]
    word_count: list[Tensor]

    def __init__(self) -> None:
        super().__init__()
        for name in ("image_id", "regions", "region_count", "caption_id", "words", "word_count"):
            self.add_state(name, [], dist_reduce_fx="cat")

    def update(
        self,
        image_id: Int[Tensor, " b"],
        regions: Float[Tensor, "b r d"],
        region_mask: Bool[Tensor, "b r"],
        caption_id: Int[Tensor, " c"],
        words: Float[Tensor, "c t d"],
        word_mask: Bool[Tensor, "c t"],
    ) -> None:
        """A batch without any rows is welcome: it tells a process with an empty share the shapes of the others."""
        self.image_id.append(image_id)
        self.regions.append(regions[region_mask])
        self.region_count.append(region_mask.sum(-1))
        self.caption_id.append(caption_id)
        self.words.append(words[word_mask])
        self.word_count.append(word_mask.sum(-1))

    def compute(self) -> Bank:
        regions, region_count = _sorted(self.image_id, self.regions, self.region_count)
        words, word_count = _sorted(self.caption_id, self.words, self.word_count)
        mask = torch.arange(int(region_count.max()), device=region_count.device) < region_count[:, None]
        ids = dim_zero_cat(self.image_id).sort().values
        return Bank(pad_sequence(regions, batch_first=True), mask, torch.cat(words), word_count, ids)


def _sorted(ids: list[Tensor], vectors: list[Tensor], counts: list[Tensor]) -> tuple[list[Tensor], Tensor]:
    """The vectors of each item, and their number, by id."""
    count = dim_zero_cat(counts)
    order = dim_zero_cat(ids).argsort()
    pieces = torch.split(dim_zero_cat(vectors), count.tolist())
    return [pieces[i] for i in order.tolist()], count[order]
