"""Which other captions compete for a picture? Those of a whole split, read once by the encoder that is judged."""

from typing import Any

import torch
from torch import Tensor, nn

from lit_attn.metrics.synthesis import DistractorPool, RPrecision
from lit_attn.models.damsm import TextEncoder
from lit_attn.types import SynthesisBatch

POOL_BATCH = 256


class CaptionRivals(nn.Module):
    """R-precision against the captions of a whole split, which are read once."""

    def __init__(self, distractors: int) -> None:
        super().__init__()
        self.precision = RPrecision(distractors)
        self._pool: DistractorPool | None = None

    @torch.no_grad()
    def begin(self, text: TextEncoder, data: Any, stage: str) -> None:
        """Reads all captions of the split with the encoder as it is now."""
        pool, device = data.caption_pool(stage), next(text.parameters()).device
        codes = [
            text(pool.tokens[rows : rows + POOL_BATCH].to(device), pool.token_mask[rows : rows + POOL_BATCH].to(device))
            for rows in range(0, len(pool), POOL_BATCH)
        ]
        self._pool = DistractorPool(torch.cat([code.sentence for code in codes]), pool.class_id, pool.image_id)

    def update(self, image: Tensor, sentence: Tensor, batch: SynthesisBatch) -> None:
        """Codes of pictures, and of the captions that belong to them."""
        assert self._pool is not None
        self.precision.update(image, sentence, batch.caption_id, batch.class_id, batch.image_id, self._pool)

    def finish(self) -> dict[str, float]:
        found = self.precision.compute()
        self.precision.reset()
        self._pool = None
        return {"r_precision": found.mean, "r_precision_std": found.std, "r_precision_images": found.pictures}
