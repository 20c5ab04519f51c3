"""How does a stream attend to another? Project, align, mask, normalise, tell the tape, drop out, weigh the values."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lit_attn.errors import UserError
from lit_attn.nn.alignment import Alignment, build_alignment
from lit_attn.nn.tape import Part, Site, is_heard, muted_heads, speak


class KeyValue(NamedTuple):
    """Projected keys and values of one stream, by head: what a decoder need not compute again."""

    key: Float[Tensor, "b h k e"]
    value: Float[Tensor, "b h k e"]


class MultiHeadAttention(nn.Module):
    """Multi-head attention with any alignment function inside every head.

    One alignment of width `dim / num_heads` is shared by all heads, as in the study of alignment functions.

    Args:
        extra_skip: Add the input of the values to the joined heads before the output projection: self-attention only.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        site: Site,
        alignment: str = "scaled_dot",
        *,
        dropout: float = 0.0,
        extra_skip: bool = False,
    ) -> None:
        super().__init__()
        if dim % num_heads:
            raise UserError(f"The width must be a multiple of the number of heads; got dim={dim}, heads={num_heads}.")
        self.site = site
        self.alignment: Alignment = build_alignment(alignment, dim // num_heads)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.output = nn.Linear(dim, dim)
        self.dropout = dropout
        self.extra_skip = extra_skip

    def forward(
        self,
        queries: Float[Tensor, "b q d"],
        keys: Float[Tensor, "b k d"],
        *,
        key_mask: Bool[Tensor, "b #q k"] | None,
        query_mask: Bool[Tensor, "b q"] | None = None,
        bias: Float[Tensor, "b h q k"] | None = None,
        parts: tuple[Part, ...] = (),
    ) -> Float[Tensor, "b q d"]:
        """Args:
        key_mask: Which keys a query may attend to; `b 1 k` when it is the same for all queries; None for all.
        query_mask: Which queries exist; probes leave out the others.
        bias: Added to the scores of every head, whatever the alignment.
        parts: Which positions belong to which stream, where several are one sequence.
        """
        stored = self.project(keys)
        context = self.attend(queries, stored, key_mask=key_mask, query_mask=query_mask, bias=bias, parts=parts)
        return self.output(context + keys if self.extra_skip else context)

    def reread(
        self,
        queries: Float[Tensor, "b q d"],
        stored: KeyValue,
        *,
        key_mask: Bool[Tensor, "b #q k"] | None,
    ) -> Float[Tensor, "b q d"]:
        """The same over keys and values that were projected before."""
        return self.output(self.attend(queries, stored, key_mask=key_mask))

    def project(self, keys: Float[Tensor, "b k d"]) -> KeyValue:
        return KeyValue(self._split(self.key(keys)), self._split(self.value(keys)))

    def attend(
        self,
        queries: Float[Tensor, "b q d"],
        stored: KeyValue,
        *,
        key_mask: Bool[Tensor, "b #q k"] | None,
        query_mask: Bool[Tensor, "b q"] | None = None,
        bias: Float[Tensor, "b h q k"] | None = None,
        site: Site | None = None,
        parts: tuple[Part, ...] = (),
    ) -> Float[Tensor, "b q d"]:
        """Joined heads before the output projection. `site` speaks instead of the module's own."""
        site = site or self.site
        query, (key, value) = self._split(self.query(queries)), stored
        mask = None if key_mask is None else key_mask.unsqueeze(1)  # b 1 q k
        mute = muted_heads(site)
        if not is_heard(site):
            context = _without(self.alignment.attend_fused(query, key, value, mask, self.dropout, bias=bias), mute)
        else:
            context, weights = self.alignment.attend(query, key, value, mask, self.dropout, bias=bias)
            context, weights = _without(context, mute), _without(weights, mute)
            if query_mask is None:
                query_mask = torch.ones(queries.shape[:2], dtype=torch.bool, device=queries.device)
            if key_mask is None:
                key_mask = torch.ones(len(key), 1, key.shape[2], dtype=torch.bool, device=key.device)
            speak(
                site,
                weights=weights,
                query_mask=query_mask,
                key_mask=key_mask,
                value=value,
                context=context,
                parts=parts,
            )
        return context.transpose(1, 2).flatten(2)

    def _split(self, stream: Float[Tensor, "b n d"]) -> Float[Tensor, "b h n e"]:
        return stream.unflatten(-1, (self.site.num_heads, -1)).transpose(1, 2)


def _without(heads: Float[Tensor, "b h q v"], mute: list[int]) -> Float[Tensor, "b h q v"]:
    """The same with nothing from some heads."""
    if not mute:
        return heads
    if mute[-1] >= heads.shape[1]:
        raise UserError(f"Head {mute[-1]} cannot be muted: there are {heads.shape[1]}, counted from 0.")
    return heads.index_fill(1, torch.tensor(mute, device=heads.device), 0.0)


class RawCapture(nn.Module):
    """Tells the tape what attention would be on the residual stream before its normalisation.

    The published probing code captured this instead of what a pre-norm network uses. It changes nothing in the network.
    """

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = site

    def forward(
        self,
        attn: MultiHeadAttention,
        queries: Float[Tensor, "b q d"],
        keys: Float[Tensor, "b k d"],
        *,
        key_mask: Bool[Tensor, "b #q k"] | None,
        query_mask: Bool[Tensor, "b q"] | None = None,
        bias: Float[Tensor, "b h q k"] | None = None,
    ) -> None:
        if is_heard(self.site):
            attn.attend(
                queries, attn.project(keys), key_mask=key_mask, query_mask=query_mask, bias=bias, site=self.site
            )
