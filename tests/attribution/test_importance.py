"""Are the baselines without attention computed as published, and are their traps told?"""

import json
import math

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional as F

from lit_attn.attribution.importance import agreement, blank_out, input_gradient, spearman, summary
from lit_attn.errors import UserError
from tests.attribution.test_lrp import MODELS, published

SAMPLES = ("s0", "s1", "s2")


def padded(rows):
    """Rows of different lengths as one batch with its mask."""
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True), torch.nn.utils.rnn.pad_sequence(
        [torch.ones_like(row, dtype=torch.bool) for row in rows], batch_first=True
    )


@pytest.fixture(scope="module")
def bert():
    return published("BertForSequenceClassification", "bert")


def check_blank_out(arrays, forward, unk, pad):
    """All samples in one padded batch."""
    tokens, mask = padded([arrays[f"{s}/input_ids"] for s in SAMPLES])
    gold = torch.stack([arrays[f"{s}/gold"] for s in SAMPLES])
    for name, replacement in (("unk", unk), ("pad_id", pad)):
        for kind, classes in (("gold", gold), ("predicted", None)):
            found = blank_out(forward(mask), tokens, replacement, mask=mask, classes=classes, copies=7)
            for i, sample in enumerate(SAMPLES):
                length = int(mask[i].sum())
                expected = arrays[f"{sample}/blankout_{name}_{kind}"]
                torch.testing.assert_close(found[i, :length], expected, rtol=0, atol=1e-10)
                assert not found[i, length:].any()


def test_blank_out_of_bert(golden, bert):
    arrays = golden("attribution/importance.npz")

    def forward(mask):
        return lambda tokens, owner: bert(input_ids=tokens, attention_mask=mask[owner].long()).logits.softmax(-1)

    check_blank_out(arrays, forward, int(arrays["unk_id"]), int(arrays["pad_id"]))


def test_gradients_of_bert(golden, bert, caplog):
    arrays = golden("attribution/importance.npz")
    for sample in SAMPLES:
        tokens = arrays[f"{sample}/input_ids"].unsqueeze(0)
        words = bert.bert.embeddings.word_embeddings(tokens).detach().requires_grad_()
        probabilities = bert(inputs_embeds=words).logits.softmax(-1)
        target = probabilities[:, 0] - probabilities[:, 1]
        for score in ("l1", "l2"):
            found = input_gradient(target, words, score)[0]
            torch.testing.assert_close(found, arrays[f"{sample}/{score}"], rtol=1e-9, atol=1e-14)
        found = input_gradient(target, words, "grad_x_input")[0]
        torch.testing.assert_close(found, arrays[f"{sample}/grad_x_input_word"], rtol=1e-9, atol=1e-14)
        assert "rounding errors" not in caplog.text
        found = input_gradient(target, words, "sum_abs")[0]
        assert (found < 1e-12 * arrays[f"{sample}/l1"]).all(), "a layer norm ignores it"
        assert "rounding errors" in caplog.text
        caplog.clear()


def test_sum_abs_after_the_layer_norm(golden, bert, caplog):
    """There it means something, and nothing is warned of."""
    arrays = golden("attribution/importance.npz")
    kept = []
    hook = bert.bert.embeddings.register_forward_hook(lambda *given: kept.append(given[2]))
    probabilities = bert(input_ids=arrays["s0/input_ids"].unsqueeze(0)).logits.softmax(-1)
    hook.remove()
    for score in ("sum_abs", "l1", "l2", "grad_x_input"):
        found = input_gradient(probabilities[:, 0] - probabilities[:, 1], kept[0], score)[0]
        torch.testing.assert_close(found, arrays[f"s0/block_output/{score}"], rtol=1e-9, atol=1e-14)
    assert not caplog.records


def test_a_masked_language_model_by_differences(golden):
    arrays = golden("attribution/importance.npz")
    net = published("DistilBertForMaskedLM", "distilbert_mlm")
    tokens, place = arrays["mlm/input_ids"].unsqueeze(0), int(arrays["mlm/mask_position"])

    def forward(tokens, owner):
        return net(input_ids=tokens).logits[:, place].softmax(-1)

    verb, other = (arrays[f"mlm/{name}"].reshape(1) for name in ("verb_id", "inflected_id"))
    found = blank_out(forward, tokens, int(arrays["mlm/mask_id"]), classes=verb, against=other)
    torch.testing.assert_close(found[0], arrays["mlm/script/blankout"], rtol=0, atol=1e-10)
    assert found[0, place] < 1e-12, "the mask replaces itself"
    words = net.distilbert.embeddings.word_embeddings(tokens).detach().requires_grad_()
    probabilities = net(inputs_embeds=words).logits[:, place].softmax(-1)
    target = probabilities[:, verb.item()] - probabilities[:, other.item()]
    torch.testing.assert_close(target[0], arrays["mlm/script/main_difference"], rtol=1e-9, atol=0)
    found = input_gradient(target, words)[0]
    torch.testing.assert_close(found, arrays["mlm/word_embedding/l2"], rtol=1e-8, atol=1e-14)


class PreLayerNorm:
    """The verb-number model of Abnar and Zuidema: pre-LN blocks without a causal mask, a classifier on token 0."""

    def __init__(self):
        folder = MODELS / "preln_encoder"
        if not folder.exists():
            pytest.skip(f"{folder} is absent; set LIT_ATTN_SHARED to the folder that holds golden/ to run it")
        self.weights = {name: value.double() for name, value in load_file(folder / "model.safetensors").items()}
        self.config = json.loads((folder / "config.json").read_text())
        self.layers = len({name.split(".")[1] for name in self.weights if name.startswith("h.")})

    def norm(self, name, x):
        return F.layer_norm(x, x.shape[-1:], self.weights[f"{name}.weight"], self.weights[f"{name}.bias"])

    def linear(self, name, x):
        return x @ self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def embed(self, tokens):
        return self.weights["wte.weight"][tokens] + self.weights["wpe.weight"][: tokens.shape[-1]]

    def __call__(self, x, mask, heads):
        maps = []
        for i in range(self.layers):
            joined = self.linear(f"h.{i}.attn.c_attn", self.norm(f"h.{i}.ln_1", x))
            q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in joined.chunk(3, -1))
            scores = (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(~mask[:, None, None], -torch.inf)
            maps.append(scores.softmax(-1))
            x = x + self.linear(f"h.{i}.attn.c_proj", (maps[-1] @ v).transpose(1, 2).flatten(2))
            inner = F.gelu(self.linear(f"h.{i}.mlp.c_fc", self.norm(f"h.{i}.ln_2", x)), approximate="tanh")
            x = x + self.linear(f"h.{i}.mlp.c_proj", inner)
        x = self.norm("ln_f", x)[:, 0]
        return (x @ self.weights["classifier.weight"].T + self.weights["classifier.bias"]).softmax(-1), maps


def test_the_verb_number_model(golden, caplog):
    arrays = golden("attribution/preln_encoder.npz")
    net = PreLayerNorm()
    heads = arrays["s0/attn"].shape[1]

    def forward(mask):
        return lambda tokens, owner: net(net.embed(tokens), mask[owner], heads)[0]

    check_blank_out(arrays, forward, net.config["unk_id"], net.config["pad_id"])
    for sample in SAMPLES:
        tokens = arrays[f"{sample}/input_ids"].unsqueeze(0)
        embedded = net.embed(tokens).requires_grad_()
        probabilities, maps = net(embedded, torch.ones_like(tokens, dtype=torch.bool), heads)
        torch.testing.assert_close(torch.stack(maps)[:, 0], arrays[f"{sample}/attn"], rtol=0, atol=1e-10)
        for score in ("l1", "l2", "grad_x_input"):
            found = input_gradient(probabilities[:, 0] - probabilities[:, 1], embedded, score)[0]
            torch.testing.assert_close(found, arrays[f"{sample}/{score}"], rtol=1e-8, atol=1e-14)
        input_gradient(probabilities[:, 0] - probabilities[:, 1], embedded, "sum_abs")
        assert "rounding errors" in caplog.text
        caplog.clear()


def test_rank_correlation(golden):
    arrays = golden("attribution/spearman.npz")
    cases = [str(case) for case in arrays["order"]]
    (first, mask), (second, _) = (padded([arrays[f"{case}/{side}"].double() for case in cases]) for side in "xy")
    first, second = first.masked_fill(~mask, 99.0), second.masked_fill(~mask, -99.0)
    for ranks in ("average", "dense"):
        found = spearman(first, second, mask, ranks=ranks)
        expected = torch.stack([arrays[f"{case}/{ranks}"].double() for case in cases])
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12, equal_nan=True)
        mean_std = torch.tensor(summary(found), dtype=torch.float64)
        torch.testing.assert_close(mean_std, arrays[f"summary/{ranks}_mean_std"].double(), rtol=0, atol=1e-12)
    for x, corr, expected in zip(arrays["layers/x"], arrays["layers/corr"], arrays["layers/mean_std"], strict=True):
        found = spearman(x, arrays["layers/y"])
        torch.testing.assert_close(found, corr, rtol=0, atol=1e-12, equal_nan=True)
        assert summary(found) == pytest.approx(expected.tolist(), abs=1e-12)


def test_agreement_with_and_without_the_first_token():
    a = torch.tensor([[9.0, 1.0, 2.0, 3.0, 0.0]])
    b = torch.tensor([[9.0, 3.0, 2.0, 1.0, 7.0]])
    mask = torch.tensor([[True, True, True, True, False]])
    found = agreement(a, b, mask)
    assert found["without_first"] == (pytest.approx(-1), 0)
    assert found["all"].mean == pytest.approx(np.corrcoef([4, 1, 2, 3], [4, 3, 2, 1])[0, 1])


def test_a_class_out_of_range_is_named():
    with pytest.raises(UserError, match="target class 2 is out of range: there are 2 classes"):
        blank_out(lambda t, o: torch.ones(len(t), 2), torch.ones(1, 3, dtype=torch.long), 0, classes=torch.tensor([2]))
