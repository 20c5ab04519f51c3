"""What does the writing in a picture answer? M4C (Hu et al. 2020), an iterative reader over one joint sequence.

The question, the objects, the OCR tokens and the answer so far attend to each other in one transformer with any alignment
inside every head; each step of an answer picks a word of a fixed list or copies an OCR token.

Equal models: under a softmax over keys general_query, general_key and biased_key are one family, and biased_query is one of
its own, because its bias scores keys. The published alignment study multiplied keys by transformed queries without
transposing, so that its biased general* lost that bias: there all four are one model, and its four rows differ by noise.

Deviations from the published code: masked tokens have no weight at all, instead of scores lowered by 10,000; absent OCR
tokens score -inf; decoding computes everything but the answer once and each step's row alone, with the same result;
places and kinds that no answer uses have no rows.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from lit_attn.errors import UserError
from lit_attn.models.m4c_inputs import PlacedFeatures, Pointer, PreviousWord
from lit_attn.nn.alignment import Alignment, Description, Setting
from lit_attn.nn.bert import SPREAD, BertLayer, BertSizes, init_bert
from lit_attn.nn.tape import Part, Site, silence
from lit_attn.nn.text_bert import build_text_bert
from lit_attn.types import ReadingBatch

START, END = 1, 2
"""Among the answer words: what the decoder reads first, and what closes an answer."""


class Seen(NamedTuple):
    """What an answer can look at: question, objects and OCR tokens in one sequence."""

    tokens: Float[Tensor, "b e d"]
    mask: Bool[Tensor, "b e"]
    parts: tuple[Part, ...]

    def part(self, index: int, sequence: Shaped[Tensor, "b n *d"]) -> Shaped[Tensor, "b m *d"]:
        """The rows of one part in a sequence that begins as this one."""
        return sequence[:, self.parts[index].start : self.parts[index].end]


OCR = 2
"""Index of the OCR tokens among the parts."""


class M4C(nn.Module):
    """Scores of answer words and OCR tokens at every step of an answer."""

    def __init__(
        self,
        *,
        vocab_size: int,
        num_answers: int,
        region_dim: int = 2048,
        word_vector_dim: int = 300,
        phoc_dim: int = 604,
        dim: int = 768,
        num_heads: int = 12,
        hidden: int = 3072,
        layers: int = 4,
        text_layers: int = 3,
        text_weights: str | None = None,
        text_sizes: Mapping[str, int | float] | None = None,
        alignment: str = "scaled_dot",
        dropout: float = 0.1,
        max_steps: int = 12,
        fc7_dim: int | None = None,
        legacy_zeros: int = 50,
        init_std: float = SPREAD,
    ) -> None:
        """Args:
        vocab_size: Of the question's tokens.
        num_answers: Answer words that need no copying, with padding, START, END and unknown first.
        text_weights: Folder or hub name of BERT weights for the question encoder; random, with our sizes, without.
        text_sizes: Of the question encoder of a trained network, to take over its weights without that folder.
        alignment: In the joint layers; the question encoder and the pointer stay with scaled dot products.
        fc7_dim: Width of a further layer on detector features, as in MMF; without it they are used unchanged.
        legacy_zeros: Columns of zeros that follow the features of an OCR token: the published weights have them.
        init_std: Spread of the first weights of the layers; a narrow network needs more than the published 0.02.
        """
        super().__init__()
        if num_answers <= END:
            raise UserError(f"The answer words must begin with padding, START and END; got num_answers={num_answers}.")
        if min(layers, max_steps) < 1:
            raise UserError(f"M4C needs a layer and a step at least; got layers={layers}, max_steps={max_steps}.")
        sizes = BertSizes(dim, num_heads, hidden, dropout)
        self.max_steps = max_steps
        self.legacy_zeros = legacy_zeros
        self.pretrained = text_weights is not None
        self.text = build_text_bert(text_weights, vocab_size, sizes, text_layers, text_sizes)
        self.text_join = nn.Identity() if self.text.dim == dim else nn.Linear(self.text.dim, dim)
        self.object_fc7, self.ocr_fc7 = _fc7(region_dim, fc7_dim), _fc7(region_dim, fc7_dim)
        seen_dim = fc7_dim or region_dim
        self.objects = PlacedFeatures(seen_dim, dim, dropout)
        self.ocr = PlacedFeatures(word_vector_dim + phoc_dim + seen_dim + legacy_zeros, dim, dropout)
        self.previous = PreviousWord(dim, max_steps, dropout)
        self.layers = nn.ModuleList(
            BertLayer(sizes, Site(f"joint.{i}.self", "joint", "joint", num_heads), alignment) for i in range(layers)
        )
        self.classifier = nn.Linear(dim, num_answers)
        self.pointer = Pointer(dim, dim)
        fresh = [self.layers, self.previous, *(() if self.pretrained else (self.text,))]
        for part in fresh:
            init_bert(part, init_std)

    @property
    def _layers(self) -> list[BertLayer]:
        return cast(list[BertLayer], list(self.layers))

    def forward(self, batch: ReadingBatch) -> Float[Tensor, "b s n"]:
        """Scores of the v answer words and then the o OCR tokens at each step, having read `batch.previous`.

        Scores of absent OCR tokens are -inf. Records count the steps in `batch.step_mask` as queries that exist.
        """
        return self.write(self.see(batch), batch.previous, batch.step_mask)

    @torch.no_grad()
    def answer(self, batch: ReadingBatch) -> Int[Tensor, "b s"]:
        """The best token of each step, read by the next one; what follows END means nothing. No tape hears it.

        Nothing else sees the answer, so all else is computed once, and each step adds its own row.
        """
        with silence():
            seen = self.see(batch)
            ocr, x, stored = seen.part(OCR, seen.tokens), seen.tokens, []
            for layer in self._layers:
                x, own = layer.first(x, seen.mask.unsqueeze(1), room=self.max_steps)
                stored.append(own)
            pointer_keys = self.pointer.key(seen.part(OCR, x))
            visible = F.pad(seen.mask, (0, self.max_steps), value=True).unsqueeze(1)
            last = batch.tokens.new_full((len(batch), 1), START)
            chosen = []
            for step in range(self.max_steps):
                x = self.previous(last, self.classifier.weight, ocr, first=step)
                place = seen.mask.shape[1] + step
                for layer, own in zip(self._layers, stored, strict=True):
                    x = layer.next(x, own, place, visible[:, :, : place + 1])
                scores = torch.cat([self.classifier(x), self.pointer.score(x, pointer_keys, batch.ocr_mask)], -1)
                last = scores.argmax(-1)
                chosen.append(last)
            return torch.cat(chosen, 1)

    def see(self, batch: ReadingBatch) -> Seen:
        """Question, objects and OCR tokens as the joint layers get them. Each kind of feature has unit length first."""
        question = self.text_join(self.text(batch.tokens, batch.token_mask))
        objects = self.objects(_unit(self.object_fc7(batch.regions)), batch.boxes)
        read = [_unit(batch.ocr_vectors), _unit(batch.ocr_phoc), _unit(self.ocr_fc7(batch.ocr_regions))]
        ocr = self.ocr(F.pad(torch.cat(read, -1), (0, self.legacy_zeros)), batch.ocr_boxes)
        ends = [question.shape[1], question.shape[1] + objects.shape[1]]
        ends.append(ends[1] + ocr.shape[1])
        return Seen(
            torch.cat([question, objects, ocr], 1),
            torch.cat([batch.token_mask, batch.region_mask, batch.ocr_mask], 1),
            (Part("question", 0, ends[0]), Part("objects", ends[0], ends[1]), Part("ocr", ends[1], ends[2])),
        )

    def write(self, seen: Seen, previous: Int[Tensor, "b s"], step_mask: Bool[Tensor, "b s"]) -> Float[Tensor, "b s n"]:
        """Scores at all steps from one pass over the joint sequence."""
        first = seen.mask.shape[1]
        written = self.previous(previous, self.classifier.weight, seen.part(OCR, seen.tokens))
        x = torch.cat([seen.tokens, written], 1)
        key_mask, query_mask = joint_mask(seen.mask, previous.shape[1]), torch.cat([seen.mask, step_mask], 1)
        parts = (*seen.parts, Part("decoded", first, x.shape[1]))
        for layer in self.layers:
            x = layer(x, key_mask=key_mask, query_mask=query_mask, parts=parts)
        copied = self.pointer(x[:, first:], seen.part(OCR, x), seen.part(OCR, seen.mask))
        return torch.cat([self.classifier(x[:, first:]), copied], -1)

    def fine_tuned(self) -> list[nn.Parameter]:
        """What published training starts from other models' weights and gives a tenth of the learning rate."""
        text = list(self.text.parameters()) if self.pretrained else []
        return [*text, *self.object_fc7.parameters(), *self.ocr_fc7.parameters()]

    def describe(self) -> Description:
        """Name, equivalence class and size of the alignment in this network: one matrix per layer, for all its heads."""
        one = self._layers[0].attn.alignment.describe(Setting())
        total = sum(p.numel() for m in self.layers.modules() if isinstance(m, Alignment) for p in m.parameters())
        return Description(one.name, one.equivalence, total)


def joint_mask(seen_mask: Bool[Tensor, "b e"], steps: int) -> Bool[Tensor, "b n n"]:
    """Who may attend to whom: all to what exists of the first e positions, steps also to themselves and those before."""
    first = seen_mask.shape[1]
    mask = F.pad(seen_mask, (0, steps)).unsqueeze(1).repeat(1, first + steps, 1)
    mask[:, first:, first:] = torch.ones(steps, steps, dtype=torch.bool, device=mask.device).tril()
    return mask


def read_back(batch: ReadingBatch, tokens: Int[Tensor, "b s"]) -> ReadingBatch:
    """The batch with these answers in place of what was taught, up to their END: one pass lets attention be heard."""
    previous = torch.cat([torch.full_like(tokens[:, :1], START), tokens[:, :-1]], 1)
    ends = tokens == END
    return replace(batch, previous=previous, step_mask=(ends.cumsum(1) - ends.long()) == 0)


def _unit(features: Float[Tensor, "b n f"]) -> Float[Tensor, "b n f"]:
    return F.normalize(features, dim=-1)


def _fc7(region_dim: int, fc7_dim: int | None) -> nn.Module:
    return nn.Identity() if fc7_dim is None else nn.Sequential(nn.Linear(region_dim, fc7_dim), nn.ReLU())
