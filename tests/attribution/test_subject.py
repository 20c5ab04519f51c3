"""Do subjects hide what they should, and do the yardsticks agree with slow loops?"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from lit_attn.attribution import truth
from lit_attn.attribution.by_inputs import INPUT_METHODS, blank_out
from lit_attn.attribution.explain import explain_subject, known_methods
from lit_attn.attribution.faithfulness import against_cause, correlated, perturbed
from lit_attn.attribution.importance import spearman
from lit_attn.attribution.perturbation import LXMERT_STEPS, kept_count
from lit_attn.attribution.subject import Subject, probability, scores_without
from lit_attn.attribution.subjects import answers_in_steps, caption_words, sentence_classes, words_read
from lit_attn.errors import UserError
from lit_attn.models.agreement import VerbNumber
from lit_attn.models.captioner import Captioner
from lit_attn.models.m4c import M4C
from lit_attn.models.mac import Mac
from lit_attn.nn.gpt2 import Gpt2Sizes
from lit_attn.types import CaptionBatch, QuestionBatch, ReadingBatch, SentenceBatch


def mask(size: int, *counts: int) -> Tensor:
    return torch.arange(size) < torch.tensor(counts)[:, None]


def captions() -> Subject:
    """Three words of two captions of two pictures, in float64."""
    net = Captioner(vocab_size=13, region_dim=11, dim=12, num_heads=3, hidden=17, encoder_layers=1, decoder_layers=2)
    corners = torch.rand(2, 7, 4).double() / 2
    batch = CaptionBatch(
        image_id=torch.arange(2), regions=torch.randn(2, 7, 11).double(),
        boxes=torch.cat([corners[..., :2], corners[..., :2] + corners[..., 2:]], -1), region_mask=mask(7, 7, 5),
        caption_id=torch.arange(2), owner=torch.tensor([1, 0]), tokens=torch.tensor([[0, 4, 2, 12, 0], [0, 1, 5, 0, 0]]),
        token_mask=mask(5, 5, 4),
    )  # fmt: skip
    links = torch.zeros(2, 5, 7, dtype=torch.bool)
    links[0, 3, 2] = links[0, 3, 4] = links[1, 2, 6] = True
    return caption_words(net.double(), batch, torch.tensor([0, 0, 1]), torch.tensor([3, 1, 2]), links)


def questions() -> Subject:
    net = Mac(vocab_size=17, num_answers=5, grid_dim=6, dim=8, word_dim=7, steps=2, kernel=1).double()
    batch = QuestionBatch(
        image_id=torch.arange(2), grid=torch.randn(2, 6, 2, 3).double(), question_id=torch.arange(3),
        owner=torch.tensor([1, 0, 1]), tokens=torch.randint(1, 17, (3, 5)), token_mask=mask(5, 5, 2, 3),
        answer=torch.zeros(3, dtype=torch.long), kind=("",) * 3, words=((),) * 3,
        causes=torch.tensor([[1, 0, 0, 0, 1, 0], [0, 1, 0, 0, 0, 0], [0] * 6]).bool(),
    )  # fmt: skip
    return answers_in_steps(net, batch, torch.tensor([0, 1, 2]))


def reading() -> Subject:
    net = M4C(
        vocab_size=19, num_answers=5, region_dim=7, word_vector_dim=6, phoc_dim=8, dim=12, num_heads=3, hidden=17,
        layers=2, text_layers=1, max_steps=3, init_std=0.3,
    ).double()  # fmt: skip

    def draw(*shape: int) -> Tensor:
        return torch.randn(3, *shape).double()

    batch = ReadingBatch(
        question_id=torch.arange(3), image_id=torch.arange(3), tokens=torch.randint(0, 19, (3, 5)),
        token_mask=mask(5, 5, 3, 4), regions=draw(7, 7), boxes=draw(7, 4).abs(), region_mask=mask(7, 7, 2, 4),
        ocr_vectors=draw(5, 6), ocr_phoc=draw(5, 8), ocr_regions=draw(5, 7), ocr_boxes=draw(5, 4).abs(),
        ocr_mask=mask(5, 1, 5, 3), previous=torch.ones(3, 3, dtype=torch.long), targets=draw(3, 10),
        step_mask=mask(3, 3, 1, 2), words=((),) * 3, ocr_words=((),) * 3, answers=((),) * 3,
        region_causes=mask(7, 1, 1, 1), ocr_causes=mask(5, 1, 0, 2),
    )  # fmt: skip
    return words_read(net, batch, torch.tensor([2, 0, 1]))


SUBJECTS = {"captions": captions, "questions": questions, "reading": reading}


@pytest.fixture(params=SUBJECTS)
def subject(request) -> Subject:
    return SUBJECTS[request.param]()


def test_blank_out_is_a_loop_over_items(subject):
    found = blank_out(subject)
    for stream, exists in subject.items.items():
        for sample, place in exists.nonzero().tolist():
            kept = exists.clone()
            kept[sample, place] = False
            shares = scores_without(subject, {stream: kept}).softmax(-1)[sample]
            whole = scores_without(subject, {}).softmax(-1)[sample]
            chosen = int(subject.classes[sample])
            expected = (shares[chosen] - whole[chosen]).abs()
            torch.testing.assert_close(found.streams[stream][sample, place], expected, rtol=1e-9, atol=1e-12)
            assert float(expected.detach()) > 0
        assert not found.streams[stream][~exists].any()


def test_hidden_items_say_nothing_more():
    """Whatever a hidden region, cell or OCR token holds, the output is the same; and other samples do not change."""
    for build, stream in ((captions, "regions"), (questions, "cells"), (reading, "ocr"), (reading, "objects")):
        torch.manual_seed(3)
        first = build()
        kept = first.items[stream].clone()
        kept[0, 0] = False
        hidden = scores_without(first, {stream: kept})
        whole = scores_without(first, {})
        assert torch.equal(hidden[1:].nan_to_num(), whole[1:].nan_to_num())
        assert not torch.allclose(hidden[0].nan_to_num(neginf=0), whole[0].nan_to_num(neginf=0))
        features: dict[str, Tensor] = {}
        scores = first.run(first.net.eval(), {stream: kept}, features)
        (gradient,) = torch.autograd.grad(scores[0, :3].sum(), features[stream], allow_unused=True)
        assert gradient is not None
        assert not gradient[0, 0].any()


def test_marks_and_later_words_are_no_items():
    words = captions().items["words"]
    assert words.tolist() == [[False, True, True, False], [False] * 4, [False, True, False, False]]
    question = reading().items["question"]  # token counts 4, 5, 3
    assert question.tolist() == [
        [False, True, True, False, False],
        [False, True, True, True, False],
        [False, True, False, False, False],
    ]


def test_a_hidden_ocr_token_cannot_be_copied():
    own = reading()
    copied = own.asking(torch.tensor([6, 5, 8]))
    kept = own.items["ocr"].clone()
    kept[0, 1] = False
    found = probability(copied, {"ocr": kept})
    assert float(found[0]) == 0
    assert found[1:].min() > 0


def test_all_methods_answer_for_all_streams(subject):
    methods = ["raw", "rollout", "gae", "logical", *INPUT_METHODS]
    found = explain_subject(subject, methods)
    assert list(found) == methods
    for name in INPUT_METHODS:
        assert set(found[name].streams) == set(subject.items), name
        assert all(values.isfinite().all() for values in found[name].streams.values())
    for stream in subject.items:
        assert found["gae"].streams[stream].shape == subject.items[stream].shape


def test_gradients_are_those_of_small_changes(subject):
    """ODAM, gradient times input and norms from finite differences of the explained score."""
    features: dict[str, Tensor] = {}
    target = subject.target(subject.run(subject.net.eval(), {}, features))
    gradients = torch.autograd.grad(target.sum(), list(features.values()))
    found = explain_subject(subject, ["gradient", "gradient_x_input", "odam"])
    for (stream, own), gradient in zip(features.items(), gradients, strict=True):
        exists = subject.items[stream]
        dots = torch.einsum("bnd,bnd->bn", gradient, own)
        for method, expected in (
            ("gradient", gradient.square().sum(-1).sqrt()),
            ("gradient_x_input", dots.abs()),
            ("odam", dots.clamp_min(0)),
        ):
            torch.testing.assert_close(found[method].streams[stream], torch.where(exists, expected, 0.0))


def test_perturbation_is_a_loop_over_steps(subject):
    scores = explain_subject(subject, ["rollout"])
    for value in perturbed(subject, scores):
        exists = subject.items[value.stream]
        for sample in range(len(subject)):
            places = exists[sample].nonzero()[:, 0].tolist()
            if not places:
                assert value.values[sample].isnan()
                continue
            own = scores["rollout"].streams[value.stream][sample]
            order = sorted(places, key=lambda i: float(own[i]), reverse=value.measure == "negative_auc")
            curve = []
            for step in LXMERT_STEPS:
                kept = exists.clone()
                kept[sample] = False
                kept[sample, order[: kept_count(len(places), step)]] = True
                curve.append(float(probability(subject, {value.stream: kept})[sample]))
            area = sum(
                (b - a) * (x + y) / 2
                for a, b, x, y in zip(LXMERT_STEPS, LXMERT_STEPS[1:], curve, curve[1:], strict=False)
            )
            assert float(value.values[sample]) == pytest.approx(area, abs=1e-9)


def test_agreement_joins_the_streams_that_may_hold_the_cause():
    subject = reading()
    scores = explain_subject(subject, ["rollout", "random"])
    found = {(v.method, v.measure): v.values for v in against_cause(subject, scores)}
    cause = torch.cat([subject.causes["objects"], subject.causes["ocr"]], 1)
    exists = torch.cat([subject.items["objects"], subject.items["ocr"]], 1)
    values = torch.cat([scores["rollout"].streams[s] for s in ("objects", "ocr")], 1)
    torch.testing.assert_close(found["rollout", "mass"], truth.mass(values, cause, exists))
    torch.testing.assert_close(found["rollout", "pointing_chance"], cause.sum(-1) / exists.sum(-1).double())
    assert not against_cause(replace(subject, causes={}), scores)
    blanked = blank_out(subject)
    for value in correlated(subject, scores, blanked):
        own = scores[value.method].streams[value.stream]
        expected = spearman(own.double(), blanked.streams[value.stream], subject.items[value.stream])
        torch.testing.assert_close(value.values, expected, equal_nan=True)


def test_a_class_against_another():
    subject = questions()
    scores = subject.forward(subject.net.eval())
    first, second = torch.tensor([0, 1, 2]), torch.tensor([4, 3, 3])
    index = torch.arange(3)
    compared = subject.asking(first, second)
    torch.testing.assert_close(compared.target(scores), scores[index, first] - scores[index, second])
    shares = subject.asking(first, second, "ratio").target(scores)
    torch.testing.assert_close(shares, scores[index, first] / scores[index, second])
    probabilities = scores.softmax(-1)
    torch.testing.assert_close(probability(compared, {}), probabilities[index, first] - probabilities[index, second])
    with pytest.raises(UserError, match="target class 7 is out of range: there are 5 classes"):
        explain_subject(subject.asking(first + 7), ["raw"])


def test_bad_streams_and_methods_are_named():
    subject = questions()
    with pytest.raises(UserError, match="Nothing can be taken away from stream 'memory'"):
        scores_without(subject, {"memory": torch.ones(3, 1, dtype=torch.bool)})
    with pytest.raises(UserError, match="no method 'blankout'. Did you mean 'blank_out'"):
        known_methods(["blankout"], inputs=True)
    assert known_methods(["heterogenous", "heterogenous_pos", "raw"]) == ["heterogenous_pos", "raw"]


def test_inference_mode_and_training_mode_change_nothing():
    subject = questions()
    expected = explain_subject(subject, ["gae", "gradient", "blank_out"])
    subject.net.train()
    with torch.inference_mode():
        found = explain_subject(subject, ["gae", "gradient", "blank_out"])
    for method, scores in expected.items():
        for stream, values in scores.streams.items():
            torch.testing.assert_close(found[method].streams[stream], values, msg=f"{method} {stream}")
    assert subject.net.training


def test_words_of_a_sentence_are_hidden_like_padding():
    sizes = Gpt2Sizes(dim=12, num_heads=3, hidden=17)
    net = VerbNumber(vocab_size=13, num_classes=2, sizes=sizes, layers=2).double()
    batch = SentenceBatch(
        sentence_id=torch.arange(2), tokens=torch.randint(1, 13, (2, 5)), token_mask=mask(5, 5, 4),
        answer=torch.zeros(2, dtype=torch.long), kind=(), words=((),) * 2,
        causes=torch.tensor([[0, 1, 0, 0, 0], [0, 0, 1, 0, 0]]).bool(),
    )  # fmt: skip
    subject = sentence_classes(net, batch, torch.tensor([1, 0]))
    assert subject.items["words"].tolist() == [[False, True, True, False, False], [False, True, True, True, False]]
    kept = subject.items["words"].clone()
    kept[0, 1] = False
    seen = batch.token_mask[[1, 0]].clone()
    seen[0, 1] = False
    torch.testing.assert_close(
        scores_without(subject, {"words": kept}), net.eval()(batch.tokens[[1, 0]], seen).detach()
    )
    found = explain_subject(subject, ["rollout", "flow", "gae", "t_attr", *INPUT_METHODS])
    assert {v.measure for v in against_cause(subject, found)} >= {"mass", "pointing", "average_precision"}
