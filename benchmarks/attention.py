"""What does it cost to be able to listen? Attention of ours against torch's own, and fused against explicit attention.

Two ratios: a forward and backward pass of one attention block against `F.multi_head_attention_forward` with the same
sizes and weights, and a training step of the captioner with fused attention against one whose every site computes its
weights (as while a tape listens). Run with `make bench`.
"""

import argparse

import torch
import torch.nn.functional as F

from benchmarks.turns import ratio
from lit_attn.models.captioner import Captioner
from lit_attn.nn.attention import MultiHeadAttention
from lit_attn.nn.tape import AttentionTape, Site
from lit_attn.ops.loss import next_word_loss

BATCH, WORDS, DIM, HEADS = 75, 17, 512, 8


def block(rounds: int) -> None:
    attn = MultiHeadAttention(DIM, HEADS, Site("self", "words", "words", HEADS))
    x = torch.randn(BATCH, WORDS, DIM, requires_grad=True)
    causal = torch.ones(WORDS, WORDS, dtype=torch.bool).tril()
    linears = (attn.query, attn.key, attn.value)
    weight, bias = (torch.cat([getattr(linear, name) for linear in linears]).detach() for name in ("weight", "bias"))
    weight.requires_grad_()
    bias.requires_grad_()

    def ours() -> torch.Tensor:
        y: torch.Tensor = attn(x, x, key_mask=causal.expand(BATCH, -1, -1))
        y.sum().backward()
        return y

    def theirs() -> torch.Tensor:
        rows = x.transpose(0, 1)
        y, _ = F.multi_head_attention_forward(
            rows, rows, rows, DIM, HEADS, weight, bias, None, None, False, 0.0, attn.output.weight, attn.output.bias,
            training=True, attn_mask=~causal, need_weights=False,
        )  # fmt: skip
        y.sum().backward()
        return y.transpose(0, 1)

    difference = (ours() - theirs()).abs().max().item()
    ratio("attention block, forward and backward, torch's own against ours", ours, theirs, rounds,
          f", largest difference {difference:.1e}")  # fmt: skip


def step(rounds: int) -> None:
    net = Captioner(vocab_size=9488, encoder_layers=2, decoder_layers=2)
    regions, boxes, mask = torch.randn(15, 36, 2048), torch.rand(15, 36, 4), torch.ones(15, 36, dtype=torch.bool)
    tokens = torch.nn.functional.pad(torch.randint(1, 9488, (BATCH, 16)), (1, 1))
    owner = torch.arange(15).repeat_interleave(5)

    def train() -> None:
        loss = next_word_loss(
            net(regions, boxes, mask, tokens, owner), tokens[:, 1:], torch.ones_like(tokens[:, 1:]).bool()
        )
        loss.backward()

    def heard() -> None:
        with AttentionTape(net, listener=lambda record: None):
            train()

    ratio("captioner, training step, explicit against fused attention", train, heard, rounds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    given = parser.parse_args()
    torch.manual_seed(0)
    block(given.rounds * 3)
    step(given.rounds)


if __name__ == "__main__":
    main()
