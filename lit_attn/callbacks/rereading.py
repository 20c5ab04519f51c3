"""How are probes asked about the texts that a model wrote itself? The texts, annotated, become a batch that it reads again.

Attention is causal, so that reading a text again shows the attention that wrote it. A text that cannot be annotated is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch

from lit_attn.types import Annotation, CaptionBatch
from lit_attn.vocabulary import END, CaptionWords


def written_batch(
    batch: CaptionBatch, texts: Sequence[str], annotations: Mapping[int, Annotation | None], words: CaptionWords
) -> CaptionBatch:
    """The pictures of a batch, each with the text written for it in place of its captions.

    Args:
        texts: One per picture.
        annotations: By the number of the picture; None for a text that could not be annotated.
    """
    pictures = batch.image_id.tolist()
    kept = [i for i, picture in enumerate(pictures) if annotations[picture] is not None]
    ids = [(END, *words.encode(texts[i].split()), END) for i in kept]
    longest = max(map(len, ids), default=0)
    device = batch.tokens.device
    tokens = torch.full((len(ids), longest), END)
    mask = torch.zeros(len(ids), longest, dtype=torch.bool)
    for i, row in enumerate(ids):
        tokens[i, : len(row)], mask[i, : len(row)] = torch.tensor(row), True
    return replace(
        batch,
        caption_id=batch.image_id[kept],
        owner=torch.tensor(kept, dtype=torch.long, device=device),
        tokens=tokens.to(device),
        token_mask=mask.to(device),
        sample_id=tuple(f"{batch.picture_name[i] if batch.picture_name else pictures[i]}-own" for i in kept),
        annotations=tuple(annotations[pictures[i]] for i in kept),
    )
