"""Does relevance pass back as in the original code, through networks as they are?"""

import pytest
import torch
from torch import nn

from lit_attn.attribution.capture import capture
from lit_attn.attribution.gradcam import grad_cam, weighted_heads
from lit_attn.attribution.layers import added, backwards
from lit_attn.attribution.lrp import lrp, partial_lrp, positive_lrp, transformer_attribution
from lit_attn.attribution.odam import min_max
from lit_attn.attribution.raw import of_last_maps, raw_attention
from lit_attn.attribution.relevance import gae, positive_relevance
from lit_attn.attribution.rollout import rollout_row
from lit_attn.errors import UserError
from lit_attn.nn.bert import BertSizes, renamed
from lit_attn.nn.text_bert import TextBert
from tests.conftest import SHARED
from tests.reference.attribution import one_stream, random_weights

MODELS = SHARED / "golden" / "attribution"


def published(kind: str, folder: str):
    """A golden model in float64 with explicit attention."""
    if not (MODELS / folder).exists():
        pytest.skip(f"{MODELS / folder} is absent; set LIT_ATTN_SHARED to the folder that holds golden/ to run it")
    import transformers

    net = getattr(transformers, kind).from_pretrained(MODELS / folder, attn_implementation="eager")
    return net.double().eval()


def close(found, expected, relative):
    """Within a share of the largest entry."""
    torch.testing.assert_close(found, expected, rtol=0, atol=relative * float(expected.abs().max()))


@pytest.fixture(scope="module")
def bert():
    return published("BertForSequenceClassification", "bert")


def bert_maps(bert, arrays, case="plain", rules=False):
    inputs = {"input_ids": arrays[f"{case}/input_ids"], "attention_mask": arrays[f"{case}/attention_mask"]}
    embedded = []
    hook = bert.bert.embeddings.register_forward_hook(lambda *given: embedded.append(given[2]))
    try:
        if rules:
            with lrp(bert):
                output = bert(**inputs, output_attentions=True)
        else:
            output = bert(**inputs, output_attentions=True)
    finally:
        hook.remove()
    target = output.logits[0, int(arrays[f"{case}/target"])]
    *found, last = torch.autograd.grad(target, [*output.attentions, embedded[0]])
    return torch.stack(output.attentions), torch.stack(found), last


def test_bert_by_lrp_equals_the_original(golden, bert):
    arrays = golden("attribution/bert.npz")
    weights, gradients, _ = bert_maps(bert, arrays)
    again, relevance, embedded = bert_maps(bert, arrays, rules=True)
    assert torch.equal(again, weights), "the rules compute what the network computes"
    # The original also divides and multiplies by every tensor that is used twice, with an epsilon: 1e-8 remains.
    close(relevance[:, 0], arrays["plain/lrp"], 1e-7)
    close(embedded.sum(-1)[0, 1:], arrays["plain/full_lrp"][1:], 1e-7)  # entry 0 is 0 there
    heard = one_stream(weights, gradients, relevance)
    row = partial_lrp(heard)[0].clone()
    row[0] = 0
    close(row, arrays["plain/partial_lrp"], 1e-7)
    for start in (0, 3):
        row = transformer_attribution(heard, start=start, normalize=True)[0].clone()
        row[0] = row.min()  # as the original's code leaves it
        close(row, arrays[f"plain/transformer_attribution_start{start}"], 1e-7)


@pytest.mark.parametrize("case", ["plain", "padded"])
def test_bert_by_other_methods_equals_the_original(golden, bert, case):
    arrays = golden("attribution/bert.npz")
    weights, gradients, _ = bert_maps(bert, arrays, case)
    close(weights[:, 0], arrays[f"{case}/attn"], 1e-9)
    close(gradients[:, 0], arrays[f"{case}/grad"], 1e-9)
    mask = arrays[f"{case}/attention_mask"].bool()
    real = mask[0]
    heard = one_stream(weights, gradients, mask=mask)
    close(gae(heard)[0][real][:, real], arrays[f"{case}/gae_R"][real][:, real], 1e-9)
    for start in range(4):
        row = rollout_row(heard, start=start)[0].clone()
        row[0] = 0
        close(row, arrays[f"{case}/rollout_start{start}"], 1e-9)
    row = raw_attention(heard)[0].clone()
    row[0] = 0
    close(row, arrays[f"{case}/attn_last_layer"], 1e-9)
    # Padding changes nothing here; in the original it changes the mean and the range.
    whole = min_max(weighted_heads(list(heard)[-1])[:, real][..., real])[0, 0].clone()
    whole[0] = 0
    close(whole, arrays["plain/attn_gradcam"], 1e-9)
    assert grad_cam(heard)[0, ~real].eq(0).all()


def test_vit_equals_the_original(golden):
    """The library computes this model's softmax in float32, so about 1e-5 is all there is."""
    arrays = golden("attribution/vit.npz")
    vit = published("ViTForImageClassification", "vit")
    pixels = arrays["pixel_values"].double().requires_grad_()

    def maps(output, *more):
        target = output.logits[0, int(arrays["target"])]
        *found, last = torch.autograd.grad(target, [*output.attentions, *more])
        return torch.stack(output.attentions), torch.stack(found), last

    weights, gradients, _ = maps(vit(pixel_values=pixels, output_attentions=True), pixels)
    with lrp(vit):
        output = vit(pixel_values=pixels, output_attentions=True)
    _, relevance, picture = maps(output, pixels)
    close(relevance[:, 0], arrays["lrp"], 3e-5)
    close(picture.sum(1)[0], arrays["full_lrp"], 1e-4)
    heard = one_stream(weights, gradients, relevance)
    close(heard.target_row(gae(heard))[0, 1:], arrays["gae"], 1e-5)
    close(raw_attention(heard)[0, 1:], arrays["attn_last_layer"], 1e-5)
    close(partial_lrp(heard)[0, 1:], arrays["partial_lrp"], 1e-5)
    close(backwards(added(heard, positive_lrp), heard.one_hot())[0, 1:], arrays["lrp_rollout"], 1e-5)
    close(of_last_maps(heard, positive_relevance)[0, 1:], arrays["partial_lrp_times_grad"], 1e-5)
    second = one_stream(weights, arrays["grad_second"].unsqueeze(1))
    close(second.target_row(gae(second))[0, 1:], arrays["gae_second"], 1e-5)
    for start in (0, 1):
        found = transformer_attribution(heard, start=start)[0, 1:]
        close(found, arrays[f"transformer_attribution_start{start}"], 1e-5)
    for start in range(4):
        close(rollout_row(heard, start=start)[0, 1:], arrays[f"rollout_start{start}"], 1e-5)


def test_our_bert_layers_pass_relevance_as_bert_does(golden, bert):
    """The same weights in our own layers, heard by the tape."""
    arrays = golden("attribution/bert.npz")
    config = bert.config
    sizes = BertSizes(
        config.hidden_size, config.num_attention_heads, config.intermediate_size, 0.1, config.layer_norm_eps
    )
    text = TextBert(config.vocab_size, sizes, config.num_hidden_layers, max_positions=config.max_position_embeddings)
    text.load_state_dict(renamed(bert.bert.state_dict()))

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.text, self.pooler, self.classifier = text, bert.bert.pooler, bert.classifier

        def forward(self, tokens, mask):
            return self.classifier(self.pooler(self.text(tokens, mask)))

    net = Classifier().double().eval()
    tokens, mask = arrays["plain/input_ids"], arrays["plain/attention_mask"].bool()
    heard = capture(net, lambda net: net(tokens, mask), rules=lrp(net))
    found = heard.gradients_of(heard.output[:, int(arrays["plain/target"])])
    close(torch.stack(found)[:, 0], arrays["plain/lrp"], 1e-7)
    heard = capture(net, lambda net: net(tokens, mask))
    found = heard.gradients_of(heard.output[:, int(arrays["plain/target"])])
    close(torch.stack(found)[:, 0], arrays["plain/grad"], 1e-9)


# The rules, one at a time


def relevance_of(module, inputs, weights, alpha=1.0):
    """Relevance of inputs when outputs have `weights` as theirs."""
    inputs = [one.clone().requires_grad_() for one in inputs]
    with lrp(nn.Identity(), alpha):
        output = module(*inputs)
    return torch.autograd.grad(output, inputs, weights)


def test_linear_layers_keep_relevance_and_ignore_their_bias():
    layer = nn.Linear(5, 3).double()
    x, given = torch.rand(7, 5).double(), torch.rand(7, 3).double()
    with torch.no_grad():
        layer.weight.abs_()
    (found,) = relevance_of(layer, [x], given)
    share = x.unsqueeze(1) * layer.weight / (x @ layer.weight.T).unsqueeze(-1)  # 7 3 5
    torch.testing.assert_close(found, (given.unsqueeze(-1) * share).sum(1).detach(), rtol=1e-7, atol=1e-9)
    with torch.no_grad():
        layer.weight[0, 0] = -3.0
    (one,), (two,) = relevance_of(layer, [x], given), relevance_of(layer, [x], given, alpha=2.0)
    assert not torch.allclose(one, two)


def test_sums_share_by_absolute_totals_in_each_sample():
    a, b = torch.randn(3, 5, 7).double(), torch.randn(3, 5, 7).double()
    given = torch.rand(3, 5, 7).double()
    found = relevance_of(lambda a, b: a + b, [a, b], given)
    parts = [(x * given / (a + b)).sum((1, 2)) for x in (a, b)]
    total = parts[0].abs() + parts[1].abs()
    for one, part in zip(found, parts, strict=True):
        torch.testing.assert_close(one.sum((1, 2)), part.abs() / total * given.sum((1, 2)), rtol=1e-5, atol=1e-5)
    alone = relevance_of(lambda a, b: a + b, [a[1:2], b[1:2]], given[1:2])
    torch.testing.assert_close(found[0][1:2], alone[0])


def test_products_halve_and_constants_pass():
    a, b, given = torch.rand(3, 5, 7).double(), torch.rand(3, 7, 2).double(), torch.rand(3, 5, 2).double()
    found = relevance_of(lambda a, b: a @ b, [a, b], given)
    for one in found:
        torch.testing.assert_close(one.sum((1, 2)), given.sum((1, 2)) / 2, rtol=1e-7, atol=1e-8)
    (one,) = relevance_of(
        lambda x: (x * 3.0 + torch.ones(5)).tanh() / 2 - 1.0, [a[..., :5]], given[:, :, :1].expand(3, 5, 5)
    )
    torch.testing.assert_close(one, given[:, :, :1].expand(3, 5, 5))


def grown(a, b):
    a = a * 1.0
    a += b
    return a


def shrunk(a, b):
    a = a * 1.0
    a -= b
    return a


def cut(a, b):
    a = a * 1.0
    a[:, 1:] += b[:, 1:]
    return a


IN_PLACE = {
    "+=": (grown, lambda a, b: a + b),
    "-=": (shrunk, lambda a, b: a - b),
    "part +=": (cut, lambda a, b: torch.cat([a[:, :1], a[:, 1:] + b[:, 1:]], 1)),
    "add_": (lambda a, b: (a * 1.0).add_(b, alpha=3), lambda a, b: a + b * 3),
    "mul_": (lambda a, b: (a * 1.0).mul_(b), lambda a, b: a * b),
    "div_": (lambda a, b: (a * 1.0).div_(b), lambda a, b: a / b),
    "relu": (lambda a, b: nn.functional.relu(a - b, inplace=True), lambda a, b: nn.functional.relu(a - b)),
    "tanh_": (lambda a, b: (a - b).tanh_(), lambda a, b: (a - b).tanh()),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_what_changes_its_operand_has_the_value_and_the_rule_of_what_does_not(name):
    changing, plain = IN_PLACE[name]
    a, b, given = (torch.randn(3, 5, 7).double() for _ in range(3))
    found, expected = (relevance_of(one, [a, b], given) for one in (changing, plain))
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
    inputs = [one.clone().requires_grad_() for one in (a, b)]
    with lrp(nn.Identity()):
        value = changing(*inputs)
    torch.testing.assert_close(value.detach(), plain(a, b))


def test_constants_before_their_operator_pass_too():
    x, given = torch.rand(3, 5).double(), torch.rand(3, 5).double()
    for module in (lambda x: 1 - x, lambda x: 1 / x):
        (found,) = relevance_of(module, [x], given)
        torch.testing.assert_close(found, given)


def test_named_parameters_count_as_constants():
    """Learned positions share with what they are added to, unless they are named."""

    class Placed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.places = nn.Embedding(5, 7).double()

        def forward(self, x):
            return x + self.places.weight

    net, given = Placed(), torch.rand(3, 5, 7).double()
    x = torch.randn(3, 5, 7).double().requires_grad_()
    for constants in ((), ("places",)):
        with lrp(net, constants=constants):
            output = net(x)
        assert net.places.weight.requires_grad
        (found,) = torch.autograd.grad(output, x, given)
        assert torch.equal(found, given) == bool(constants)
    with pytest.raises(UserError, match=r"no parameters called 'place'.* 'places'"), lrp(net, constants=["place"]):
        pass


def test_what_has_no_rule_is_refused():
    a = torch.rand(3, 5)
    with pytest.raises(UserError, match="no rule for einsum"):
        relevance_of(lambda a, b: torch.einsum("ij,kj->ik", a, b), [a, a], torch.ones(3, 3))
    with pytest.raises(UserError, match="no rule for scaled_dot_product_attention"):
        relevance_of(lambda x: nn.functional.scaled_dot_product_attention(x, x, x), [a], a)


def test_a_start_outside_the_plan_is_refused():
    weights = random_weights(2, 1, 1, 3, 3)
    with pytest.raises(UserError, match="groups 0 to 1"):
        transformer_attribution(one_stream(weights, weights, weights), start=-1)
