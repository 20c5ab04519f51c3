"""Are the correlation tables those of a slow, obvious computation, one sentence and one pair of nodes at a time?"""

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from lit_attn.attribution.correlations import Classifier, Run, Sentences, correlate
from lit_attn.attribution.plans import plan_of
from lit_attn.errors import UserError
from lit_attn.models.agreement import VerbNumber
from lit_attn.nn.gpt2 import Gpt2Sizes
from lit_attn.nn.tape import AttentionTape

LENGTHS = (7, 3, 5, 6, 4)


@pytest.fixture(scope="module")
def classifier():
    torch.manual_seed(3)
    net = VerbNumber(17, 3, Gpt2Sizes(22, 2, 13), layers=3, max_positions=11, init_std=0.6).double().train()

    def run(network, tokens, mask):
        embedded = network.embed(tokens)
        return Run(network.classify(embedded, mask), embedded)

    return Classifier(net, plan_of(net), run, replacement=1)


@pytest.fixture(scope="module")
def sentences():
    tokens = torch.randint(2, 17, (5, 7), generator=torch.Generator().manual_seed(1))
    mask = torch.arange(7) < torch.tensor(LENGTHS).unsqueeze(1)
    return Sentences(tokens, mask, torch.tensor([0, 2, 1, 1, 0]))


def slow(classifier, sentences, rows):
    """Per sentence: scores[method][layer], blank-out and gradient, without padding and without batches."""
    net = classifier.net.eval()
    for tokens, length, label in zip(sentences.tokens, LENGTHS, sentences.classes, strict=True):
        own = tokens[None, :length]
        there = torch.ones_like(own, dtype=torch.bool)
        with AttentionTape(net) as tape:
            shares = net(own, there).softmax(-1)[0]
        blanked = []
        for place in range(length):
            other = own.clone()
            other[0, place] = 1
            blanked.append(float((shares - net(other, there).softmax(-1)[0])[label].abs()))
        embedded = net.embed(own).detach().requires_grad_()
        probabilities = net.classify(embedded, there).softmax(-1)[0]
        best = max(float(p) for i, p in enumerate(probabilities) if i != label)
        rival = next(i for i, p in enumerate(probabilities) if float(p) == best and i != label)
        (probabilities[label] - probabilities[rival]).backward()
        gradient = [float(row.square().sum().sqrt()) for row in embedded.grad[0]]
        maps = [record.weights[0].mean(0).detach().numpy() for record in tape.records]
        mixed = [(one + np.eye(length)) / 2 for one in maps]
        graph = nx.DiGraph()
        for level, one in enumerate(mixed):
            for i in range(length):
                for j in range(length):
                    graph.add_edge((level + 1, i), (level, j), capacity=float(one[i, j]))
        state, scores = np.eye(length), {"raw": [], "rollout": [], "flow": []}
        pick = (lambda m: m[0]) if rows == "target" else (lambda m: m.max(0))
        for level, (one, whole) in enumerate(zip(mixed, maps, strict=True), 1):
            state = one @ state
            flows = np.array(
                [
                    [nx.maximum_flow_value(graph, (level, i), (0, j)) for j in range(length)]
                    for i in (range(length) if rows == "max" else [0])
                ]
            )
            scores["raw"].append(pick(whole))
            scores["rollout"].append(pick(state))
            scores["flow"].append(np.round(pick(flows), 6))
        yield scores, {"blank_out": np.array(blanked), "gradient": np.array(gradient)}


@pytest.mark.parametrize("rows", ["target", "max"])
def test_equals_the_slow_computation(classifier, sentences, rows):
    done = []
    halves = [
        Sentences(sentences.tokens[part], sentences.mask[part], sentences.classes[part])
        for part in (slice(0, 2), slice(2, 5))
    ]
    found = correlate(classifier, halves, rows=rows, advance=done.append)
    assert done == [2, 3]
    assert found.samples == 5
    assert classifier.net.training or rows == "max", "the network is left as it was"
    expected = list(slow(classifier, sentences, rows))
    assert len(found.rows) == 3 * 3 * 2 * 2
    for row in found.rows:
        first = 0 if row.positions == "all" else 1
        values = [
            spearmanr(scores[row.method][row.layer - 1][first:], importance[row.against][first:]).statistic
            for scores, importance in expected
        ]
        values = np.nan_to_num(values)
        assert row.mean == pytest.approx(values.mean(), abs=1e-10), row
        assert row.std == pytest.approx(values.std(), abs=1e-10), row


def test_processes_give_the_same(classifier, sentences):
    here = correlate(classifier, [sentences], against=["gradient"])
    assert correlate(classifier, [sentences], against=["gradient"], processes=1) == here
    assert here.saturation[0] < 1
    assert len(here.saturation) == 3


def test_mistakes(classifier, sentences):
    with pytest.raises(UserError, match="Unknown comparison 'gradients'. Did you mean 'gradient'"):
        correlate(classifier, [sentences], against=["gradients"])
    with pytest.raises(UserError, match="no sentences"):
        correlate(classifier, [])
    wrong = Sentences(sentences.tokens, sentences.mask, torch.tensor([0, 2, 3, 1, 0]))
    with pytest.raises(UserError, match="target class 3 is out of range: there are 3 classes"):
        correlate(classifier, [wrong], against=["blank_out"])
