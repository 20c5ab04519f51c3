"""What must be remembered to score a set of generated pictures? Sums for its distance from real ones, rows for the rest.

Everything is kept in float64. Sums are added over processes; rows are gathered and sorted by id before they are cut into
parts, so that neither batches nor processes change a score. Each score says of how many pictures it is, because all three
depend on that.
"""

from typing import NamedTuple, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from lit_attn.errors import UserError
from lit_attn.ops.align import NORM_FLOOR
from lit_attn.ops.synthesis import covariance, drawn, fold_precision, frechet_distance, inception_score

TIE = 1e-6
"""Cosines that are no further apart are equal: the same words, read in another batch, differ by rounding."""
CELLS_AT_ONCE = 2**22
"""Numbers that are looked at together when wrong captions are drawn and compared."""


class DistanceScore(NamedTuple):
    """A distance and the pictures on both sides of it."""

    value: float
    real: int
    fake: int


class SpreadScore(NamedTuple):
    """A mean over pictures, its deviation over parts of them, and how many they are."""

    mean: float
    std: float
    pictures: int


@final
class FrechetDistance(Metric):
    """Fréchet distance of the features of real and generated pictures (FID with FID's network). At least 0, lower is better.

    Args:
        width: Numbers that the network gives for a picture.
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better = False
    total: Float[Tensor, "2 f"]
    products: Float[Tensor, "2 f f"]
    count: Float[Tensor, " 2"]

    def __init__(self, width: int) -> None:
        super().__init__()
        self.add_state("total", torch.zeros(2, width, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("products", torch.zeros(2, width, width, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros(2, dtype=torch.float64), dist_reduce_fx="sum")
        self.set_dtype(torch.float64)

    def update(self, features: Float[Tensor, "b f"], real: bool) -> None:
        """Features of pictures that are all real or all generated. None at all is welcome."""
        side = 0 if real else 1
        rows = features.detach().double()
        self.total[side] += rows.sum(0)
        self.products[side] += rows.mT @ rows
        self.count[side] += len(rows)

    def compute(self) -> DistanceScore:
        """NaN while a side has no pictures."""
        real, fake = (int(count) for count in self.count.tolist())
        if not real or not fake:
            return DistanceScore(float("nan"), real, fake)
        of_real = covariance(self.total[0].cpu(), self.products[0].cpu(), real)
        of_fake = covariance(self.total[1].cpu(), self.products[1].cpu(), fake)
        return DistanceScore(frechet_distance(*of_real, *of_fake), real, fake)


class _Rows(Metric):
    """Numbers per picture, by id. Kept flat: a process without pictures then fits the others, too."""

    full_state_update = False
    is_differentiable = False
    higher_is_better = True
    ids: list[Tensor] | Tensor
    values: list[Tensor] | Tensor

    def __init__(self) -> None:
        super().__init__()
        self.add_state("ids", [], dist_reduce_fx="cat")
        self.add_state("values", [], dist_reduce_fx="cat")
        self.set_dtype(torch.float64)

    def keep(self, values: Float[Tensor, "b k"], ids: Int[Tensor, " b"]) -> None:
        assert isinstance(self.ids, list)
        assert isinstance(self.values, list)
        self.ids.append(ids.detach().double())
        self.values.append(values.detach().double().flatten())

    def rows(self) -> Float[Tensor, "n k"]:
        """Those of all processes, by id."""
        ids = dim_zero_cat(self.ids) if len(self.ids) else torch.zeros(0)
        if not len(ids):
            return torch.zeros(0, 1, dtype=torch.float64)
        return dim_zero_cat(self.values).reshape(len(ids), -1)[ids.argsort(stable=True)].cpu()


@final
class InceptionScore(_Rows):
    """How sure a classifier is about each picture, and how different they are: see `ops.synthesis.inception_score`.

    Args:
        splits: Parts, consecutive by id, that are scored apart. With fewer pictures, each is a part of its own.
    """

    def __init__(self, splits: int = 10) -> None:
        super().__init__()
        if splits < 1:
            raise UserError(f"InceptionScore needs at least one split, got splits={splits}.")
        self.splits = splits

    def update(self, probabilities: Float[Tensor, "b k"], ids: Int[Tensor, " b"]) -> None:
        """Of generated pictures, with the id of the caption of each."""
        self.keep(probabilities, ids)

    def compute(self) -> SpreadScore:
        rows = self.rows()
        return SpreadScore(*inception_score(rows, self.splits), len(rows))


class DistractorPool(NamedTuple):
    """Captions among which wrong ones are drawn. The same pool, in the same order, for all batches and processes."""

    sentence: Float[Tensor, "n d"]
    class_id: Int[Tensor, " n"]
    image_id: Int[Tensor, " n"]


@final
class RPrecision(_Rows):
    """Share of pictures, in [0, 1], that are nearer to their own caption than to all of the wrong ones, by cosine.

    Wrong ones are captions of other classes and other pictures, drawn by (seed, caption) alone. A tie is no hit. Chance is
    1 / (1 + distractors).

    Args:
        distractors: Wrong captions per picture; published: 99.
        folds: Parts, consecutive by id, over which the deviation is taken; published: 10.
        seed: Of the draw.
    """

    def __init__(self, distractors: int = 99, folds: int = 10, seed: int = 0) -> None:
        super().__init__()
        for name, value in {"distractors": distractors, "folds": folds}.items():
            if value < 1:
                raise UserError(f"RPrecision needs {name} of at least 1, got {name}={value}.")
        self.distractors, self.folds, self.seed = distractors, folds, seed

    def update(
        self,
        image: Float[Tensor, "b d"],
        sentence: Float[Tensor, "b d"],
        caption_id: Int[Tensor, " b"],
        class_id: Int[Tensor, " b"],
        image_id: Int[Tensor, " b"],
        pool: DistractorPool,
    ) -> None:
        """Codes of generated pictures and of the captions that they were made from."""
        pictures, wrong = _unit(image), _unit(pool.sentence.to(image.device))
        own = (pictures * _unit(sentence)).sum(-1)
        hits = torch.zeros(len(image), dtype=torch.bool, device=image.device)
        step = max(1, CELLS_AT_ONCE // max(len(wrong), self.distractors * image.shape[1]))
        for first in range(0, len(image), step):
            part = slice(first, first + step)
            others = self._drawn(caption_id[part], class_id[part], image_id[part], pool).to(image.device)  # b m
            cosines = torch.einsum("bd,bmd->bm", pictures[part], wrong[others])
            hits[part] = own[part] > cosines.amax(-1) + TIE
        self.keep(hits.double().unsqueeze(-1), caption_id)

    def _drawn(
        self,
        caption_id: Int[Tensor, " b"],
        class_id: Int[Tensor, " b"],
        image_id: Int[Tensor, " b"],
        pool: DistractorPool,
    ) -> Int[Tensor, "b m"]:
        allowed = _differ(class_id, pool.class_id) & _differ(image_id, pool.image_id)
        candidates = allowed.sum(1)
        if len(candidates) and candidates.min() < self.distractors:
            place = int(candidates.argmin())
            raise UserError(
                f"R-precision draws distractors={self.distractors} captions of other classes and pictures, but caption "
                f"{int(caption_id[place])} has only {int(candidates[place])} to draw from. Lower distractors to that, or "
                "evaluate more pictures."
            )
        return torch.from_numpy(drawn(allowed, caption_id.cpu().numpy(), self.distractors, self.seed))

    def compute(self) -> SpreadScore:
        hits = self.rows()[:, 0] > 0.5
        return SpreadScore(*fold_precision(hits, self.folds), len(hits))


def _unit(codes: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """Each of length 1, in float64; zeros stay zeros."""
    codes = codes.detach().double()
    return codes / codes.norm(dim=-1, keepdim=True).clamp_min(NORM_FLOOR)


def _differ(own: Int[Tensor, " b"], others: Int[Tensor, " n"]) -> Bool[np.ndarray, "b n"]:
    return own.cpu().numpy()[:, None] != others.cpu().numpy()[None]
