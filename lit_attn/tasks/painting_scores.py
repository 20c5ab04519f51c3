"""How good are the pictures that were painted? FID, IS, R-precision and, on Scenes, the colour of what the caption names.

Every score stands beside the number of pictures that it was measured on, since all depend on it.
"""

from typing import Any

import lightning as L
import torch
from torch import Tensor, nn

from lit_attn.metrics.mean import WeightedMean
from lit_attn.metrics.synthesis import FrechetDistance, InceptionScore
from lit_attn.tasks.caption_rivals import CaptionRivals
from lit_attn.tasks.feature_networks import FeatureNetwork, Seen, feature_network
from lit_attn.types import SynthesisBatch

LOOKS = ("color_right", "thing_shown", "color_right_real", "thing_shown_real")
"""Shares of pictures; the last two of the real ones, as a yardstick."""


class PaintingScores(nn.Module):
    """All scores of one evaluation.

    Args:
        judge: The network behind FID and IS; see `tasks.feature_networks`. None: neither is measured.
        distractors: Wrong captions beside the right one.
    """

    def __init__(self, judge: str | None, distractors: int) -> None:
        super().__init__()
        self.judge_name = judge
        self.rivals = CaptionRivals(distractors)
        self.inception = InceptionScore()
        self.looks = nn.ModuleDict({name: WeightedMean() for name in LOOKS})
        self.distance: FrechetDistance | None = None
        self._judges: list[FeatureNetwork] = []
        """At most one, made when it is needed."""

    def begin(self, task: L.LightningModule, data: Any, stage: str) -> None:
        self.rivals.begin(task.get_submodule("text"), data, stage)  # type: ignore[arg-type]
        if self.judge_name is not None and not self._judges:
            self._judges = [feature_network(self.judge_name)]
            self.distance = FrechetDistance(self._judges[0].width)
        if self.distance is not None:
            self.distance.to(task.device)

    @torch.no_grad()
    def update(self, made: Tensor, image: Tensor, sentence: Tensor, batch: SynthesisBatch) -> list[bool | None]:
        """Painted pictures, their codes and those of their captions. Returns whether each has the colour that it should."""
        verdicts: list[bool | None] = [None] * len(batch)
        self.rivals.update(image, sentence, batch)
        for judge in self._judges:
            assert self.distance is not None
            seen = judge(made)
            self.distance.update(seen.features, real=False)
            if batch.image is not None:
                real = judge(batch.image)
                self.distance.update(real.features, real=True)
                self._judge_looks(real, batch, "_real")
            if seen.probabilities is not None:
                self.inception.update(seen.probabilities, batch.caption_id)
            verdicts = self._judge_looks(seen, batch)
        return verdicts

    def _judge_looks(self, seen: Seen, batch: SynthesisBatch, suffix: str = "") -> list[bool | None]:
        """Has the largest thing that the caption names with a colour that colour? Apart from that: is it there at all?"""
        if seen.looks is None or batch.main_kind is None or batch.main_color is None:
            return [None] * len(batch)
        named = batch.main_kind >= 0
        of_kind = seen.looks[torch.arange(len(batch)), batch.main_kind.clamp_min(0)]  # b colors+1
        right = of_kind[:, :-1].argmax(-1) == batch.main_color
        shown = of_kind.argmax(-1) < of_kind.shape[-1] - 1
        if named.any():
            for name, values in {"color_right": right, "thing_shown": shown}.items():
                self._look(name + suffix).update(values[named].double().mean(), named.sum())
        return [bool(is_right) if asked else None for is_right, asked in zip(right, named, strict=True)]

    def _look(self, name: str) -> WeightedMean:
        mean = self.looks[name]
        assert isinstance(mean, WeightedMean)
        return mean

    def finish(self) -> dict[str, float]:
        """All scores by name; what nothing was counted for is left out."""
        scores = self.rivals.finish()
        if self.distance is not None:
            far = self.distance.compute()
            scores |= {"fid": far.value, "fid_images": far.fake, "fid_real_images": far.real}
            self.distance.reset()
        sure = self.inception.compute()
        scores |= {"is": sure.mean, "is_std": sure.std, "is_images": sure.pictures}
        with self._look("color_right").sync_context():  # the count of all processes, too
            scores |= {"color_images": float(self._look("color_right").count)}
        for name in LOOKS:
            scores |= {name: float(self._look(name).compute())}
            self._look(name).reset()
        self.inception.reset()
        return {name: value for name, value in scores.items() if value == value and not _empty(name, scores)}


def _empty(name: str, scores: dict[str, float]) -> bool:
    """Whether a count is of nothing."""
    return name.endswith("_images") and not scores[name]
