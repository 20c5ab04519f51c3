"""Which units make one reasoning step of MAC? Control asks, read looks, write remembers.

Source: Hudson and Manning 2018, "Compositional Attention Networks for Machine Reasoning", in the configuration of the study
of alignment functions. An alignment function is used element-wise here: its products go through a linear layer of one output
instead of being summed. In the read unit an ELU comes between, so that the functions are different models.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lit_attn.nn.alignment import build_alignment
from lit_attn.nn.tape import Site, is_heard, speak
from lit_attn.ops import align
from lit_attn.ops.normalize import masked_softmax


def weigh(
    site: Site,
    logits: Float[Tensor, "c k"],
    key_mask: Bool[Tensor, "c k"] | None,
    value: Float[Tensor, "c k d"],
) -> Float[Tensor, "c d"]:
    """The mean of the values under a softmax of the logits; the tape hears it as one query of one head."""
    mask = None if key_mask is None else key_mask[:, None, None]
    weights = masked_softmax(logits[:, None, None], mask)  # c 1 1 k
    context = weights @ value.unsqueeze(1)  # c 1 1 d
    if is_heard(site):
        everywhere = torch.ones_like(logits, dtype=torch.bool)
        speak(
            site,
            weights=weights,
            query_mask=everywhere[:, :1],
            key_mask=(everywhere if key_mask is None else key_mask).unsqueeze(1),
            value=value.unsqueeze(1),
            context=context,
        )
    return context[:, 0, 0]


class ControlUnit(nn.Module):
    """Which words does this step deal with?

    Args:
        recurrent: The control before goes into the next, through a linear layer, tanh and another one; then the layer that
            reads the question is the same in all steps.
        swapped: Words take the query's place in the alignment, as in the published code of the study.
    """

    def __init__(self, dim: int, steps: int, alignment: str, recurrent: bool, swapped: bool) -> None:
        super().__init__()
        self.site = Site("control", "steps", "words", calls=steps)
        self.alignment = build_alignment(alignment, dim)
        self.swapped = swapped
        self.step_inputs = nn.ModuleList(nn.Linear(dim, dim) for _ in range(1 if recurrent else steps))
        self.merge = nn.Sequential(nn.Linear(2 * dim, dim), nn.Tanh(), nn.Linear(dim, dim)) if recurrent else None
        self.logits = nn.Linear(dim, 1)

    def ask(self, step: int, question: Float[Tensor, "c d"], control: Float[Tensor, "c d"]) -> Float[Tensor, "c d"]:
        """What this step would know, before it looks at the words."""
        wish = self.step_inputs[0 if self.merge else step](question)
        return wish if self.merge is None else self.merge(torch.cat([control, wish], -1))

    def forward(
        self, wish: Float[Tensor, "c d"], words: Float[Tensor, "c t d"], word_mask: Bool[Tensor, "c t"]
    ) -> Float[Tensor, "c d"]:
        if self.swapped:
            keys, query, scale = self.alignment.transform(words, wish)
        else:
            query, keys, scale = self.alignment.transform(wish, words)
        products = self.alignment.activate(align.elementwise(query, keys, scale))
        return weigh(self.site, self.logits(products).squeeze(-1), word_mask, words)


class ReadUnit(nn.Module):
    """Which cells of the picture matter to this control, given what is remembered?"""

    def __init__(self, dim: int, steps: int, alignment: str, dropout: float) -> None:
        super().__init__()
        self.site = Site("read", "steps", "cells", calls=steps)
        self.alignment = build_alignment(alignment, dim)
        self.knowledge = nn.Linear(dim, dim)
        self.memory = nn.Linear(dim, dim)
        self.merge = nn.Linear(2 * dim, dim)
        self.mix = nn.Linear(dim, dim)
        self.logits = nn.Linear(dim, 1)
        self.dropout = nn.Dropout(dropout)

    def look(self, knowledge: Float[Tensor, "b k d"]) -> tuple[Float[Tensor, "b k d"], Float[Tensor, "b k d"]]:
        """What does not depend on the memory: the projected cells P, and their own share of the merged layer."""
        projected = self.knowledge(self.dropout(knowledge))
        _, own = self.merge.weight.chunk(2, dim=1)
        return projected, F.linear(projected, own, self.merge.bias)

    def forward(
        self,
        control: Float[Tensor, "c d"],
        memory: Float[Tensor, "c d"],
        knowledge: Float[Tensor, "c k d"],
        looked: tuple[Float[Tensor, "c k d"], Float[Tensor, "c k d"]],
    ) -> Float[Tensor, "c d"]:
        projected, own = looked
        joint, _ = self.merge.weight.chunk(2, dim=1)
        interaction = projected * self.memory(self.dropout(memory)).unsqueeze(1)
        mixed = self.mix(F.elu(F.linear(interaction, joint) + own))  # c k d
        products = F.elu(self.alignment.elementwise(control, mixed))
        return weigh(self.site, self.logits(self.dropout(products)).squeeze(-1), None, knowledge)


class WriteUnit(nn.Module):
    """What is remembered after this step?

    Args:
        self_attention: Earlier steps whose control resembles this one's wish add what was remembered then.
        gate: The control decides, feature by feature, how much of the new memory replaces the old.
    """

    def __init__(self, dim: int, steps: int, self_attention: bool, gate: bool) -> None:
        super().__init__()
        self.site = Site("self", "steps", "steps", calls=steps) if self_attention else None
        self.write = nn.Linear((3 if self_attention else 2) * dim, dim)
        self.query = nn.Linear(dim, dim) if self_attention else None
        self.logits = nn.Linear(dim, 1) if self_attention else None
        self.gate = nn.Linear(dim, dim) if gate else None

    def forward(
        self,
        wish: Float[Tensor, "c d"],
        control: Float[Tensor, "c d"],
        info: Float[Tensor, "c d"],
        controls: list[Float[Tensor, "c d"]],
        memories: list[Float[Tensor, "c d"]],
    ) -> Float[Tensor, "c d"]:
        """`controls` and `memories` are those of all states before this one."""
        read = [memories[-1], info]
        if self.site is not None and self.query is not None and self.logits is not None:
            products = self.query(wish).unsqueeze(1) * torch.stack(controls, 1)
            read.append(weigh(self.site, self.logits(products).squeeze(-1), None, torch.stack(memories, 1)))
        memory = self.write(torch.cat(read, -1))
        if self.gate is None:
            return memory
        share = torch.sigmoid(self.gate(control) + 1.0)
        return share * memory + (1 - share) * memories[-1]
