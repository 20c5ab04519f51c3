"""Does the tape hear exactly what the network used?"""

import gc
import threading
import weakref

import pytest
import torch
from torch import nn

from lit_attn.errors import UserError
from lit_attn.nn.alignment import ALIGNMENTS
from lit_attn.nn.attention import MultiHeadAttention
from lit_attn.nn.tape import AttentionTape, Site, ordinary, sites_of

B, Q, K, D, H = 2, 5, 7, 12, 3


class Net(nn.Module):
    """Two sites; the second is used twice per forward."""

    def __init__(self, alignment: str = "scaled_dot", dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.ModuleList(
            MultiHeadAttention(D, H, Site(f"decoder.{i}.cross", "words", "regions", H), alignment, dropout=dropout)
            for i in range(2)
        )

    def forward(self, words: torch.Tensor, regions: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        words = words + self.layers[0](words, regions, key_mask=mask)
        for _ in range(2):
            words = words + self.layers[1](words, regions, key_mask=mask)
        return words


def inputs(dtype=torch.float64) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    mask = torch.rand(B, 1, K) < 0.7
    mask[:, :, 0] = True
    return torch.randn(B, Q, D, dtype=dtype), torch.randn(B, K, D, dtype=dtype), mask


@pytest.mark.parametrize("alignment", list(ALIGNMENTS))
def test_weights_times_values_are_the_context_that_went_on(alignment):
    net = Net(alignment).double().eval()
    words, regions, mask = inputs()
    silent = net(words, regions, mask)
    with AttentionTape(net) as tape:
        heard = net(words, regions, mask)
    torch.testing.assert_close(silent, heard, rtol=0, atol=1e-12)  # listening does not change the network
    calls = [(record.site.name, record.call) for record in tape]
    assert calls == [("decoder.0.cross", 0), ("decoder.1.cross", 0), ("decoder.1.cross", 1)]
    stream = words
    for record, layer in zip(tape, (net.layers[0], net.layers[1], net.layers[1]), strict=True):
        assert record.weights.shape == (B, H, Q, K)
        context = record.weights @ record.value
        torch.testing.assert_close(context, record.context, rtol=0, atol=1e-12)
        stream = stream + layer.output(context.transpose(1, 2).flatten(2))
        assert record.weights.masked_select(~mask[:, None].expand_as(record.weights)).eq(0).all()
    torch.testing.assert_close(stream, heard, rtol=0, atol=1e-12)


def test_weights_are_those_before_dropout():
    net = Net(dropout=0.5).double().train()
    with AttentionTape(net, "decoder.0.*") as tape:
        net(*inputs())
    (record,) = tape["decoder.0.cross"]
    torch.testing.assert_close(record.weights.sum(-1), torch.ones(B, H, Q, dtype=torch.float64))
    assert not torch.allclose(record.weights @ record.value, record.context)


def test_patterns_choose_sites():
    net = Net().double()
    with AttentionTape(net, "decoder.1.*") as tape:
        net(*inputs())
    assert {record.site.name for record in tape} == {"decoder.1.cross"}
    with pytest.raises(KeyError, match=r"'decoder.0.cross' is not on this tape"):
        tape["decoder.0.cross"]
    with pytest.raises(
        UserError, match=r"No attention site matches 'encoder.*'. Known sites: decoder.0.cross, decoder.1"
    ):
        AttentionTape(net, "encoder.*")


def test_silence_is_an_error_that_lists_the_sites():
    net = Net()
    with pytest.raises(RuntimeError, match=r"heard nothing at decoder.0.cross, decoder.1.cross"), AttentionTape(net):
        pass


def test_an_error_inside_is_not_hidden_and_the_tape_leaves():
    net = Net().double()
    with pytest.raises(ZeroDivisionError), AttentionTape(net):
        raise ZeroDivisionError
    assert torch.isfinite(net(*inputs())).all()


def test_gradients_equal_finite_differences():
    net = Net("general_query").double().eval()
    words, regions, mask = inputs()
    with AttentionTape(net, gradients=True) as tape:
        target = net(words, regions, mask)[0, 1, 2]
        gradients = tape.gradients_of(target)
    assert all(parameter.grad is None for parameter in net.parameters())
    # The last site's weights enter the output linearly: the gradient is the projected value.
    record, gradient = tape.records[-1], gradients[-1]
    unit = net.layers[1].output.weight[2].view(H, D // H)
    wanted = torch.einsum("he,hke->hk", unit, record.value[0])
    torch.testing.assert_close(gradient[0, :, 1], wanted, rtol=0, atol=1e-12)
    assert gradient[1].eq(0).all(), "samples do not mix"
    other = tape.gradients_of(target * 3)
    torch.testing.assert_close(other[0], gradients[0] * 3)


def test_gradients_are_zero_where_the_target_does_not_look():
    net = Net().double().eval()
    words, regions, mask = inputs()
    with AttentionTape(net, gradients=True) as tape:
        early = net.layers[0](words, regions, key_mask=mask).sum()
        net(words, regions, mask)
        gradients = tape.gradients_of(early)
        assert gradients[0].abs().max() > 0
        assert all(gradient.eq(0).all() for gradient in gradients[1:])
        with pytest.raises(RuntimeError, match="depends on none of the recorded weights"):
            tape.gradients_of(words.requires_grad_().sum())


def test_gradients_work_from_inside_inference_mode():
    net = Net().double().eval()
    with torch.inference_mode():
        batch = inputs()
        with AttentionTape(net, gradients=True) as tape:
            target = net(*ordinary(batch)).sum()
            gradients = tape.gradients_of(target)
        assert torch.is_inference_mode_enabled()
    assert any(gradient.abs().max() > 0 for gradient in gradients)


def test_tape_without_gradients_says_how_to_get_them():
    net = Net().double()
    with AttentionTape(net) as tape:
        out = net(*inputs())
    assert not tape.records[0].weights.requires_grad
    with pytest.raises(UserError, match="gradients=True"):
        tape.gradients_of(out.sum())


def test_listener_gets_every_record_and_nothing_is_kept():
    net = Net().double()
    heard, alive = [], []

    def listen(record):
        heard.append(record.weights.sum().item())
        alive.append(weakref.ref(record.weights))

    with AttentionTape(net, listener=listen) as tape, torch.no_grad():
        for _ in range(4):
            net(*inputs())
    gc.collect()
    assert len(heard) == 12
    assert tape.records == []
    assert not any(ref() is not None for ref in alive)


def test_weights_are_normalised_in_float32_under_autocast():
    net = Net().eval()
    words, regions, mask = inputs(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16), AttentionTape(net) as tape:
        net(words, regions, mask)
    sums = torch.stack([record.weights.float().sum(-1) for record in tape])
    assert (sums - 1).abs().max() < 1e-2
    for record in tape:
        difference = record.weights.float() @ record.value.float() - record.context.float()
        assert difference.abs().max() < 3e-2


def test_nested_tapes_each_hear_and_other_threads_do_not():
    net = Net().double()
    batch = inputs()
    with AttentionTape(net) as outer:
        net(*batch)
        with AttentionTape(net) as inner:
            net(*batch)
        thread = threading.Thread(target=lambda: net(*batch))
        thread.start()
        thread.join()
    assert (len(outer.records), len(inner.records)) == (6, 3)


def test_site_names_must_be_unique():
    one = MultiHeadAttention(D, H, Site("twin", "a", "b", H))
    two = MultiHeadAttention(D, H, Site("twin", "a", "b", H))
    with pytest.raises(ValueError, match="used twice: twin"):
        sites_of(nn.ModuleList([one, two]))


def test_width_must_divide_into_heads():
    with pytest.raises(UserError, match="dim=12, heads=5"):
        MultiHeadAttention(12, 5, Site("x", "a", "b", 5))


def test_tapes_may_end_in_the_order_they_began():
    net = Net().double()
    batch = inputs()
    first, second = AttentionTape(net), AttentionTape(net)
    first.__enter__()
    second.__enter__()
    net(*batch)
    first.__exit__(None, None, None)
    net(*batch)
    second.__exit__(None, None, None)
    net(*batch)
    assert (len(first.records), len(second.records)) == (3, 6)
