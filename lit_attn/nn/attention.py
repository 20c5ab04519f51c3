"""How does a stream attend to another? Project, align, mask, normalise, tell the tape, drop out, weigh the values."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from lit_attn.errors import UserError
from lit_attn.nn.alignment import Alignment, build_alignment
from lit_attn.nn.tape import Site, is_heard, speak


class MultiHeadAttention(nn.Module):
    """Multi-head attention with any alignment function inside every head.

    One alignment of width `dim / num_heads` is shared by all heads, as in the study of alignment functions.
    """

    def __init__(
        self,
        dim: int,
        num_heads: int,
        site: str,
        alignment: str = "scaled_dot",
        *,
        query_stream: str,
        key_stream: str,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if dim % num_heads:
            raise UserError(f"The width must be a multiple of the number of heads; got dim={dim}, heads={num_heads}.")
        self.site = Site(site, query_stream, key_stream, num_heads)
        self.alignment: Alignment = build_alignment(alignment, dim // num_heads)
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.output = nn.Linear(dim, dim)
        self.dropout = dropout

    def forward(
        self,
        queries: Float[Tensor, "b q d"],
        keys: Float[Tensor, "b k d"],
        *,
        key_mask: Bool[Tensor, "b #q k"],
        query_mask: Bool[Tensor, "b q"] | None = None,
    ) -> Float[Tensor, "b q d"]:
        """Args:
        key_mask: Which keys a query may attend to; `b 1 k` when it is the same for all queries.
        query_mask: Which queries exist; probes leave out the others.
        """
        query, key, value = self._split(self.query(queries)), self._split(self.key(keys)), self._split(self.value(keys))
        mask = key_mask.unsqueeze(1)  # b 1 q k
        if not is_heard(self.site):
            context = self.alignment.attend_fused(query, key, value, mask, self.dropout)
        else:
            context, weights = self.alignment.attend(query, key, value, mask, self.dropout)
            if query_mask is None:
                query_mask = torch.ones(queries.shape[:2], dtype=torch.bool, device=queries.device)
            speak(self.site, weights=weights, query_mask=query_mask, key_mask=key_mask, value=value, context=context)
        return self.output(context.transpose(1, 2).flatten(2))

    def _split(self, stream: Float[Tensor, "b n d"]) -> Float[Tensor, "b h n e"]:
        return stream.unflatten(-1, (self.site.num_heads, -1)).transpose(1, 2)
