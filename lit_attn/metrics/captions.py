"""How good are the captions of a whole set? CIDEr-D, BLEU and ROUGE-L as COCO evaluation counts them.

Scale: that of the papers, a hundred times COCO's own. A CIDEr-D of 112.6 is 1.126 on COCO's scale, which ends at 10, so
ours ends at 1000; BLEU and ROUGE-L end at 100. Higher is better.

Scores of a corpus are no sums over batches, so the texts are remembered. They are strings, which torchmetrics cannot
hold as a state; hence a class of our own with its three verbs. Over several processes each gathers the texts of all and
sorts them by picture, so all compute the number that a single process would, to the bit.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, final

from lit_attn.errors import UserError
from lit_attn.metrics.gather import gathered
from lit_attn.ops.bleu import bleu
from lit_attn.ops.cider import CiderD, DocumentFrequencies, cider_d
from lit_attn.ops.rouge import rouge_l

SCALE = 100.0


class Captioned(NamedTuple):
    """A picture, the caption under test and those of people. Texts are tokenised: words with blanks between them."""

    picture_id: int
    hypothesis: str
    references: tuple[str, ...]


@final
class CaptionScores:
    """Collects captions over batches and processes. `frequencies` of words, if given, add `cider_train`."""

    def __init__(self, frequencies: DocumentFrequencies | None = None) -> None:
        self._frequencies = frequencies
        self._captions: list[Captioned] = []

    def update(self, picture_id: Sequence[int], hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
        """One hypothesis per picture. No picture may come twice, in this process or in another."""
        for number, hypothesis, own in zip(picture_id, hypotheses, references, strict=True):
            if not own:
                raise UserError(f"Picture {number} has no reference captions to be scored against: leave it out.")
            self._captions.append(Captioned(number, hypothesis, tuple(own)))

    def gather(self) -> list[Captioned]:
        """The captions of all processes by picture. All processes must call it, also those that have none."""
        captions = sorted(gathered(self._captions), key=lambda captioned: captioned.picture_id)
        for one, next_one in pairwise(captions):
            if one.picture_id == next_one.picture_id:
                raise ValueError(f"Picture {one.picture_id} was captioned twice; every picture must be scored once.")
        return captions

    def compute(self) -> dict[str, float]:
        """The scores of `caption_scores` over all processes."""
        captions = self.gather()
        return caption_scores(
            [captioned.hypothesis for captioned in captions],
            [captioned.references for captioned in captions],
            self._frequencies,
        )

    def reset(self) -> None:
        """Forget all captions."""
        self._captions = []


def caption_scores(
    hypotheses: Sequence[str], references: Sequence[Sequence[str]], frequencies: DocumentFrequencies | None = None
) -> dict[str, float]:
    """The scores of a set with one hypothesis per picture, all NaN when it is empty.

    `cider` is CIDEr-D with document frequencies from these references. `cider_train`, only with `frequencies`, is CIDEr-D
    under those, usually the training set's, and does not depend on how many pictures are scored together. Then `bleu1`
    to `bleu4`, `rouge_l`, and `words`: the mean number of words of a hypothesis, not scaled.
    """
    names = ("cider", *(() if frequencies is None else ("cider_train",)), "bleu1", "bleu2", "bleu3", "bleu4", "rouge_l")
    if not hypotheses:
        return dict.fromkeys((*names, "words"), math.nan)
    words = [text.split() for text in hypotheses]
    own_words = [[text.split() for text in own] for own in references]
    values = [cider_d(words, own_words).mean()]
    if frequencies is not None:
        values.append(CiderD(frequencies, remembered=1).scores(words, own_words).mean())
    values.extend(bleu(words, own_words))
    # COCO splits on single blanks for ROUGE-L only.
    pieces = [text.split(" ") for text in hypotheses]
    own_pieces = [[text.split(" ") for text in own] for own in references]
    values.append(rouge_l(pieces, own_pieces).mean())
    scores = {name: SCALE * float(value) for name, value in zip(names, values, strict=True)}
    return {**scores, "words": sum(map(len, words)) / len(words)}
