"""Is `nn.MultiheadAttention` the same in the open, with every mask and shape that it takes?"""

import itertools

import pytest
import torch
from torch import nn

from lit_attn.adapters.load import adapt
from lit_attn.adapters.multihead import attention
from lit_attn.attribution.explain import METHODS, explain
from lit_attn.attribution.targets import best
from lit_attn.errors import UserError
from lit_attn.nn.tape import AttentionTape, sites_of


def masks(kind, padding):
    """Masks of 5 queries and 7 keys in 3 samples and 2 heads; no query is without a key."""
    hide = torch.zeros(5, 7, dtype=torch.bool)
    hide[1, :6], hide[4, 2:] = True, True
    pairs = {
        "none": None,
        "bool": hide,
        "float": torch.randn(5, 7).double().masked_fill(hide, -torch.inf),
        "heads": hide.roll(1, 0).expand(6, 5, 7) & (torch.arange(6)[:, None, None] % 2 == 0),
    }[kind]
    lost = torch.arange(7) >= torch.tensor([[7], [2], [5]])
    lost[:, 6] = False
    lengths = {"none": None, "bool": lost, "float": torch.zeros(3, 7).double().masked_fill(lost, -torch.inf)}[padding]
    return {"attn_mask": pairs, "key_padding_mask": lengths}


@pytest.mark.parametrize(
    ("kind", "padding"), list(itertools.product(["none", "bool", "float", "heads"], ["none", "bool", "float"]))
)
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.filterwarnings("ignore:Support for mismatched")
def test_it_computes_what_torch_computes(kind, padding, batch_first):
    module = nn.MultiheadAttention(6, 2, kdim=11, vdim=13, batch_first=batch_first).double().eval()
    nn.init.normal_(module.in_proj_bias)
    inputs = [torch.randn(3, n, d).double() for n, d in ((5, 6), (7, 11), (7, 13))]
    given = masks(kind, padding)
    for average in (True, False):
        order = inputs if batch_first else [x.transpose(0, 1) for x in inputs]
        expected, weights = module(*order, **given, average_attn_weights=average)
        (found, own), heard, seen = attention(module, *order, **given, average_attn_weights=average)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(own, weights)
        torch.testing.assert_close(heard.weights @ heard.value, heard.context)
    assert torch.equal(heard.weights.sum(1).gt(0), seen.expand(3, 5, 7))
    assert attention(module, *order, **given, need_weights=False)[0][1] is None


def test_one_sample_without_a_batch_and_no_bias():
    module = nn.MultiheadAttention(6, 2, bias=False).double()
    x = torch.randn(5, 6).double()
    lost = torch.tensor([False, False, True, False, True])
    expected, weights = module(x, x, x, key_padding_mask=lost)
    (found, own), heard, seen = attention(module, x, x, x, lost)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(own, weights)
    assert heard.weights.shape == (1, 2, 5, 5)
    assert torch.equal(seen, ~lost[None, None])


def test_a_query_without_keys_reads_nothing():
    module = nn.MultiheadAttention(6, 2, batch_first=True)
    x = torch.randn(2, 3, 6)
    lost = torch.tensor([[False, False, True], [True, True, True]])
    _, heard, seen = attention(module, x, x, x, lost)
    assert not heard.context[1].any()
    assert not heard.weights[1].any()
    assert not seen[1].any()
    assert heard.weights.isfinite().all()


@pytest.mark.parametrize("norm_first", [True, False])
def test_the_fast_path_of_an_encoder_is_off_while_it_is_heard(norm_first):
    """In evaluation without gradients torch would take it, and nothing would be heard."""
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first)
    encoder = nn.TransformerEncoder(layer, 3, enable_nested_tensor=not norm_first).eval()
    x, lost = torch.randn(2, 5, 8), torch.arange(5) >= torch.tensor([[5], [3]])
    net = adapt(encoder)
    with torch.no_grad():
        expected = encoder(x, src_key_padding_mask=lost)
        with AttentionTape(net) as tape:
            found = net(x, src_key_padding_mask=lost)
    assert [record.site.name for record in tape] == ["encoder.0.self", "encoder.1.self", "encoder.2.self"]
    assert torch.equal(tape.records[0].query_mask, ~lost)
    torch.testing.assert_close(found[~lost], expected[~lost], rtol=0, atol=1e-6)


def test_a_decoder_alone_reads_a_memory():
    decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True), 2).double()
    net = adapt(decoder)
    words, memory = torch.randn(2, 3, 8).double(), torch.randn(2, 7, 8).double()
    assert [site.name for site in sites_of(net)] == [f"decoder.{i}.{k}" for i in range(2) for k in ("self", "cross")]
    scores = explain(net, net.plan(1), lambda net: net(words, memory)[:, 1], best, list(METHODS))
    for one in scores.values():
        assert one.streams["source"].shape == (2, 7)
        assert one.streams["target"].shape == (2, 3)
    assert adapt(nn.TransformerEncoderLayer(8, 2)).plan(0).streams == ("source",)


class Reader(nn.Module):
    """Words read themselves, then cells."""

    def __init__(self):
        super().__init__()
        self.own = nn.MultiheadAttention(8, 2, batch_first=True)
        self.reader = nn.MultiheadAttention(8, 4, batch_first=True)

    def forward(self, words, cells):
        words = words + self.own(words, words, words, need_weights=False)[0]
        return words + self.reader(words, cells, cells)[0]


def test_other_networks_name_their_streams():
    words, cells = torch.randn(2, 3, 8), torch.randn(2, 7, 8)
    model = Reader().eval()
    streams = {"own": ("words", "words"), "read*": ("words", "cells")}
    net = adapt(model, streams=streams)
    assert [(s.name, s.query_stream, s.key_stream, s.num_heads) for s in sites_of(net)] == [
        ("own", "words", "words", 2),
        ("reader", "words", "cells", 4),
    ]
    found = explain(net, net.plan(2), lambda net: net(words, cells)[:, 2], best, ["gae", "t_attr"])["gae"]
    assert found.streams["cells"].shape == (2, 7)
    unnamed = adapt(model)
    with pytest.raises(UserError, match="'reader' reads something other than its query"), AttentionTape(unnamed):
        unnamed(words, cells)
    with pytest.raises(UserError, match="No nn.MultiheadAttention is at 'nowhere'. They are at: own, reader"):
        adapt(model, streams={"nowhere": ("a", "b")})
    with pytest.raises(UserError, match="Name it: plan\\(row=position\\)"):
        net.plan()


def test_one_module_by_itself():
    net = adapt(nn.MultiheadAttention(8, 2, batch_first=True).eval())
    x = torch.randn(2, 3, 8)
    with torch.no_grad(), AttentionTape(net) as tape:
        net(x, x, x)
    assert [record.site.name for record in tape] == ["attention"]


@pytest.mark.parametrize("option", ["add_bias_kv", "add_zero_attn"])
def test_keys_that_are_no_inputs_are_refused(option):
    with pytest.raises(UserError, match="has keys that are no inputs"):
        adapt(nn.Sequential(nn.MultiheadAttention(8, 2, **{option: True})))
