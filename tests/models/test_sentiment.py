"""Is the sentence classifier the BERT of transformers, heard at every layer and explained by every method?"""

import pytest
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

from lit_attn.attribution.explain import METHODS, explain
from lit_attn.attribution.plans import plan_of
from lit_attn.attribution.targets import best
from lit_attn.errors import UserError
from lit_attn.models.sentiment import BertClassifier
from lit_attn.nn.alignment import ALIGNMENTS
from lit_attn.nn.bert import BertSizes, renamed
from lit_attn.nn.tape import AttentionTape

SIZES = BertSizes(dim=12, num_heads=3, hidden=17, eps=1e-3)


def sentences() -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(1, 31, (5, 7), generator=torch.Generator().manual_seed(1))
    return tokens, torch.arange(7) < torch.tensor([7, 3, 5, 7, 2]).unsqueeze(1)


def net(alignment: str = "scaled_dot") -> BertClassifier:
    torch.manual_seed(0)
    return BertClassifier(31, 4, SIZES, 2, alignment=alignment, max_positions=11, init_std=0.4).double().eval()


def test_it_equals_that_of_transformers():
    config = BertConfig(
        vocab_size=31, hidden_size=12, num_attention_heads=3, intermediate_size=17, num_hidden_layers=2,
        max_position_embeddings=11, layer_norm_eps=1e-3, num_labels=4, attn_implementation="eager",
    )  # fmt: skip
    theirs = BertForSequenceClassification(config).double().eval()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.5)
    ours = net()
    state = {
        name.replace("embed.", "embedding.", 1) if name.startswith("embed.") else name: tensor
        for name, tensor in renamed(theirs.bert.state_dict()).items()
    }
    for own, part in (("pooler", theirs.bert.pooler.dense), ("output", theirs.classifier)):
        state |= {f"{own}.{name}": tensor for name, tensor in part.state_dict().items()}
    ours.load_state_dict(state)
    tokens, mask = sentences()
    expected = theirs(input_ids=tokens, attention_mask=mask.long(), output_attentions=True)
    with AttentionTape(ours) as tape:
        found = ours(tokens, mask)
    torch.testing.assert_close(found, expected.logits, rtol=0, atol=1e-10)
    torch.testing.assert_close(ours(tokens, mask), found, rtol=0, atol=1e-12)
    for record, attention in zip(tape, expected.attentions, strict=True):
        weights, wanted = record.weights.transpose(1, 2)[mask], attention.transpose(1, 2)[mask]
        torch.testing.assert_close(weights, wanted, rtol=0, atol=1e-10)
        torch.testing.assert_close(record.weights @ record.value, record.context, rtol=0, atol=1e-12)


@pytest.mark.parametrize("alignment", sorted(ALIGNMENTS))
def test_padding_changes_nothing(alignment):
    network = net(alignment)
    tokens, mask = sentences()
    found = network(tokens, mask)
    for row, length in enumerate(mask.sum(-1).tolist()):
        alone = network(tokens[row : row + 1, :length], mask[row : row + 1, :length])
        torch.testing.assert_close(found[row : row + 1], alone, rtol=0, atol=1e-10)


def test_every_method_explains_it():
    network = net()
    tokens, mask = sentences()
    scores = explain(network, plan_of(network), lambda own: own(tokens, mask), best, list(METHODS))
    for name, own in scores.items():
        assert torch.isfinite(own.streams["words"]).all(), name
        assert not own.streams["words"][~mask].any(), name
        assert own.streams["words"].any(), name


def test_long_sentences_are_refused():
    with pytest.raises(UserError, match="A sentence has 12 tokens.*knows 11 positions"):
        net()(torch.ones(1, 12, dtype=torch.long), torch.ones(1, 12, dtype=torch.bool))
