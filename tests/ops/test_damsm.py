"""Are DAMSM's formulas those of the original code, and do pairs stay apart?"""

import pytest
import torch

from lit_attn.ops import damsm
from tests.reference import synthesis as slow

FILE = "alignment/attngan_damsm.npz"
GAMMAS = (3.0, 7.0, 11.0)


def codes(pictures=5, captions=3, longest=7):
    regions = torch.randn(pictures, 11, 2, 3, dtype=torch.float64)
    words = torch.randn(captions, longest, 11, dtype=torch.float64)
    lengths = torch.randint(1, longest + 1, (captions,))
    return regions, words, torch.arange(longest) < lengths[:, None]


def published(golden):
    arrays = golden(FILE)
    words = arrays["words"].double().transpose(1, 2)
    mask = torch.arange(words.shape[1]) < arrays["lengths"][:, None]
    return arrays, arrays["regions"].double(), words, mask


def test_all_pairs_equal_loops_over_one_pair():
    regions, words, mask = codes()
    found = damsm.word_similarity(regions, words, mask, *GAMMAS)
    assert found.shape == (5, 3)
    for i, picture in enumerate(regions.flatten(2).transpose(1, 2)):
        for j in range(3):
            wanted = slow.word_similarity(picture, words[j, mask[j]], GAMMAS)
            assert found[i, j].item() == pytest.approx(wanted, abs=1e-10)


def test_sentences_of_all_pairs_equal_loops():
    images, sentences = torch.randn(5, 11, dtype=torch.float64), torch.randn(3, 11, dtype=torch.float64)
    found = damsm.sentence_similarity(images, sentences, 7.0)
    wanted = [[7 * slow.cosine(image, sentence) for sentence in sentences] for image in images]
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=1e-12)


def test_maps_equal_loops_and_are_zero_on_padding():
    regions, words, mask = codes(3, 3)
    maps = damsm.word_maps(regions, words, mask, 3.0)
    assert maps.shape == (3, 7, 2, 3)
    for i in range(3):
        wanted = slow.word_attention(regions[i].flatten(1).T, words[i, mask[i]], 3.0)
        found = maps[i, mask[i]].flatten(1)
        torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64), rtol=0, atol=1e-12)
    assert maps[~mask].abs().sum() == 0


def test_padding_changes_nothing_whatever_it_holds():
    regions, words, mask = codes()
    wanted = damsm.word_similarity(regions, words, mask)
    junk = torch.where(mask[..., None], words, 1e3)
    more = torch.nn.functional.pad(junk, (0, 0, 0, 4), value=-50.0)
    found = damsm.word_similarity(regions, more, torch.nn.functional.pad(mask, (0, 4)))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)


def test_zero_padding_has_a_finite_gradient():
    regions, words, mask = codes()
    words = torch.where(mask[..., None], words, 0.0).requires_grad_()
    damsm.word_similarity(regions.requires_grad_(), words, mask).sum().backward()
    assert words.grad.isfinite().all()
    assert words.grad[~mask].abs().sum() == 0
    assert regions.grad.abs().min() > 0


@pytest.mark.parametrize("classes", [None, [2, 5, 2, 2, 7], [0, 1, 2, 3, 4], [3, 3, 3, 3, 3]])
def test_loss_equals_loops(classes):
    logits = torch.randn(5, 5, dtype=torch.float64)
    found = damsm.match_loss(logits, None if classes is None else torch.tensor(classes))
    assert [loss.item() for loss in found] == pytest.approx(slow.match_loss(logits, classes), abs=1e-12)


def test_of_one_class_only_the_own_pair_is_left():
    logits = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    found = damsm.match_loss(logits, torch.tensor([4, 4, 4]))
    assert [loss.item() for loss in found] == [0.0, 0.0]
    sum(found).backward()
    assert logits.grad.isfinite().all()


def test_logits_are_those_of_the_original(golden):
    arrays, regions, words, mask = published(golden)
    found = damsm.word_similarity(regions, words, mask, *arrays["gammas"].tolist())
    torch.testing.assert_close(found, arrays["word_similarity"], rtol=0, atol=1e-9)
    image, sentence = arrays["image_code"].double(), arrays["sentence"].double()
    found = damsm.sentence_similarity(image, sentence, arrays["gammas"][2].item())
    torch.testing.assert_close(found, arrays["sentence_similarity"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("case", ["class_ids", "no_class_ids"])
def test_losses_and_gradients_are_those_of_the_original(golden, case):
    arrays, regions, words, mask = published(golden)
    classes = arrays["class_ids"] if case == "class_ids" else None
    given = {
        "regions": regions,
        "words": words,
        "image_code": arrays["image_code"].double(),
        "sentence": arrays["sentence"].double(),
    }
    for tensor in given.values():
        tensor.requires_grad_()
    by_word = damsm.match_loss(damsm.word_similarity(regions, words, mask), classes)
    by_sentence = damsm.match_loss(damsm.sentence_similarity(given["image_code"], given["sentence"]), classes)
    for name, losses in (("word", by_word), ("sentence", by_sentence)):
        for direction in ("image_to_text", "text_to_image"):
            wanted = arrays[f"{case}.{name}_loss_{direction}"]
            torch.testing.assert_close(getattr(losses, direction), wanted, rtol=0, atol=1e-9)
    (sum(by_word) + sum(by_sentence)).backward()
    for name, tensor in given.items():
        found = tensor.grad.transpose(1, 2) if name == "words" else tensor.grad
        torch.testing.assert_close(found, arrays[f"{case}.grad_{name}"], rtol=0, atol=1e-9)


def test_maps_are_those_of_the_original(golden):
    arrays, regions, words, mask = published(golden)
    torch.testing.assert_close(damsm.word_maps(regions, words, mask), arrays["word_maps"], rtol=0, atol=1e-9)
    whole = damsm.word_maps(regions, words, torch.ones_like(mask))
    torch.testing.assert_close(whole, arrays["func_attention.attention"], rtol=0, atol=1e-9)
    context = torch.einsum("btyx,bdyx->bdt", whole, regions)
    torch.testing.assert_close(context, arrays["func_attention.context"], rtol=0, atol=1e-9)
