"""Is a muted head gone, and only that one?"""

import pytest
import torch

from lit_attn.errors import UserError
from lit_attn.nn.attention import MultiHeadAttention
from lit_attn.nn.tape import AttentionTape, Site, muted, muted_heads

SITE = Site("a.0.self", "words", "words", 3)


def made() -> tuple[MultiHeadAttention, torch.Tensor]:
    return MultiHeadAttention(15, 3, SITE).double(), torch.randn(2, 7, 15, dtype=torch.float64)


@pytest.mark.parametrize("heard", [False, True])
def test_muting_equals_a_zero_slice_of_the_output_projection(heard):
    attn, x = made()
    with muted("a.0.self", 1):
        if heard:
            with AttentionTape(attn) as tape:
                found = attn(x, x, key_mask=None)
            record = tape["a.0.self"][0]
            assert record.weights[:, 1].eq(0).all()
            torch.testing.assert_close(record.weights @ record.value, record.context, rtol=0, atol=1e-12)
        else:
            found = attn(x, x, key_mask=None)
    assert not torch.allclose(found, attn(x, x, key_mask=None))
    with torch.no_grad():
        attn.output.weight[:, 5:10] = 0
    torch.testing.assert_close(found, attn(x, x, key_mask=None), rtol=0, atol=1e-12)


def test_muting_adds_up_and_ends():
    with muted("a.0.self", 0), muted("a.0.self", 2), muted("b", 1):
        assert muted_heads(SITE) == [0, 2]
    assert muted_heads(SITE) == []


def test_a_head_that_is_not_there_is_named():
    attn, x = made()
    with muted("a.0.self", 3), pytest.raises(UserError, match="Head 3 cannot be muted: there are 3"):
        attn(x, x, key_mask=None)
