"""How many questions are answered right? TextVQA's accuracy and ANLS, over all questions and by what is asked for.

Both are means over questions, between 0 and 1, higher is better, and NaN where there is no question. Each process counts
its own questions; sums and counts, in float64, are added over processes.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor
from torchmetrics import Metric

from lit_attn.errors import UserError
from lit_attn.ops.answers import accuracy, anls

SCORES = ("accuracy", "anls")


class AnswerScores(Metric):
    """Mean accuracy and ANLS of predicted answers. With `kinds`, also those of the questions of each kind."""

    full_state_update = False
    totals: Float[Tensor, "groups 2"]
    counts: Float[Tensor, " groups"]

    def __init__(self, kinds: Sequence[str] = ()) -> None:
        super().__init__()
        self.kinds = tuple(kinds)
        groups = 1 + len(self.kinds)
        self.add_state("totals", torch.zeros(groups, len(SCORES), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("counts", torch.zeros(groups, dtype=torch.float64), dist_reduce_fx="sum")
        self.set_dtype(torch.float64)

    def update(
        self, predictions: Sequence[str], answers: Sequence[Sequence[str]], kinds: Sequence[str] | None = None
    ) -> None:
        """One prediction and all people's answers per question. An unknown kind counts in the means over all only."""
        asked_for = [""] * len(predictions) if kinds is None else kinds
        for prediction, own, kind in zip(predictions, answers, asked_for, strict=True):
            if not own:
                raise UserError(
                    f"The prediction {prediction!r} has no answers to be scored against. Use predict for such questions."
                )
            scores = torch.tensor([accuracy(prediction, own), anls(prediction, own)], dtype=torch.float64)
            groups = [0, *(1 + i for i, name in enumerate(self.kinds) if name == kind)]
            self.totals[groups] += scores.to(self.totals.device)
            self.counts[groups] += 1

    def compute(self) -> dict[str, Float[Tensor, ""]]:
        """`accuracy` and `anls`, then `accuracy/<kind>` and `anls/<kind>`."""
        means = self.totals / self.counts.unsqueeze(1)
        names = ("", *(f"/{kind}" for kind in self.kinds))
        return {f"{score}{name}": means[i, j] for i, name in enumerate(names) for j, score in enumerate(SCORES)}
