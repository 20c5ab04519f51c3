"""How do things seen, words read and words written become vectors of one width, and how does an answer copy?

Source: M4C (Hu et al. 2020). The layer norms of objects and OCR tokens have epsilon 1e-5 as in the published code, all
others 1e-12. Deviation: rows of the answer table are looked up before they are normalised, which is the same and never
copies the table for every question.
"""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from lit_attn.errors import UserError

INPUT_EPS = 1e-5


class PlacedFeatures(nn.Module):
    """Something seen at a box: norm(Linear(features)) + norm(Linear(box))."""

    def __init__(self, feature_dim: int, dim: int, dropout: float) -> None:
        super().__init__()
        self.features = nn.Linear(feature_dim, dim)
        self.features_norm = nn.LayerNorm(dim, INPUT_EPS)
        self.box = nn.Linear(4, dim)
        self.box_norm = nn.LayerNorm(dim, INPUT_EPS)
        self.drop = nn.Dropout(dropout)

    def forward(self, features: Float[Tensor, "b n f"], boxes: Float[Tensor, "b n 4"]) -> Float[Tensor, "b n d"]:
        return self.drop(self.features_norm(self.features(features)) + self.box_norm(self.box(boxes)))


class PreviousWord(nn.Module):
    """What was written a step before: a row of the answer table or an OCR token's input, with its place and kind."""

    def __init__(self, dim: int, max_steps: int, dropout: float, eps: float = 1e-12) -> None:
        super().__init__()
        self.positions = nn.Embedding(max_steps, dim)
        self.kinds = nn.Embedding(2, dim)
        self.answer_norm = nn.LayerNorm(dim, eps)
        self.ocr_norm = nn.LayerNorm(dim, eps)
        self.place_norm = nn.LayerNorm(dim, eps)
        self.drop = nn.Dropout(dropout)

    def forward(
        self,
        previous: Int[Tensor, "b s"],
        answers: Float[Tensor, "v d"],
        ocr: Float[Tensor, "b o d"],
        first: int = 0,
    ) -> Float[Tensor, "b s d"]:
        """Args:
        previous: Below v a row of `answers`, from v on an OCR token.
        answers: The rows of the classifier.
        first: The step of the first column.
        """
        steps, limit = previous.shape[1], self.positions.num_embeddings
        if first + steps > limit:
            raise UserError(f"The answers have {first + steps} steps, more than max_steps={limit} of the model.")
        copied = previous >= len(answers)
        words = self.answer_norm(F.embedding(previous.masked_fill(copied, 0), answers))
        # A row of zeros stands for "nothing copied", so that all parameters are used even where there is no OCR token.
        rows = torch.where(copied, previous - len(answers), ocr.shape[1])
        source = F.pad(ocr, (0, 0, 0, 1)).gather(1, rows.unsqueeze(-1).expand(-1, -1, ocr.shape[2]))
        place = self.positions.weight[first : first + steps] + self.kinds(copied.long())
        return torch.where(copied.unsqueeze(-1), self.ocr_norm(source), words) + self.drop(self.place_norm(place))


class Pointer(nn.Module):
    """How well an OCR token continues the answer: the scaled dot product of a projected step and a projected token."""

    def __init__(self, dim: int, width: int) -> None:
        super().__init__()
        self.query = nn.Linear(dim, width)
        self.key = nn.Linear(dim, width)

    def forward(
        self, steps: Float[Tensor, "b s d"], ocr: Float[Tensor, "b o d"], ocr_mask: Bool[Tensor, "b o"]
    ) -> Float[Tensor, "b s o"]:
        """Scores, -inf for tokens that do not exist."""
        return self.score(steps, self.key(ocr), ocr_mask)

    def score(
        self, steps: Float[Tensor, "b s d"], keys: Float[Tensor, "b o e"], ocr_mask: Bool[Tensor, "b o"]
    ) -> Float[Tensor, "b s o"]:
        """The same over tokens that were projected before."""
        scores = self.query(steps) @ keys.transpose(1, 2) / math.sqrt(keys.shape[-1])
        return scores.masked_fill(~ocr_mask.unsqueeze(1), float("-inf"))
