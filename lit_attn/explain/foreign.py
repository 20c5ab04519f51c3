"""How are foreign models explained? Their own inputs, one sample at a time: texts, pictures, or regions with a question.

How an item is taken away: tokens of texts are masked, boxes are deleted, patches and cells become the mean colour. Marks such
as CLS and SEP stay, and so does the token that answers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor, nn

from lit_attn.adapters.adapter import Adapter
from lit_attn.adapters.detr import DetrAdapter
from lit_attn.adapters.encoder import EncoderAdapter
from lit_attn.adapters.gpt2 import Gpt2Adapter
from lit_attn.adapters.hugging_face import config_of
from lit_attn.adapters.load import Loaded, load
from lit_attn.adapters.lxmert import LxmertAdapter
from lit_attn.adapters.timm_vit import TimmVitAdapter
from lit_attn.adapters.vit import VitAdapter
from lit_attn.attribution.capture import evaluating
from lit_attn.attribution.plan import Plan
from lit_attn.attribution.subject import Features, Kept, Run, Subject
from lit_attn.data.picture_folder import SUFFIXES
from lit_attn.data.region_store import open_regions
from lit_attn.drawing.explanation import Boxes, Cells, View, Words
from lit_attn.errors import UserError
from lit_attn.explain.case import Case, Shown

SURE = 0.5
"""DETR: queries whose best class is at least so likely are explained."""
MOST_QUERIES = 5


@dataclass(frozen=True)
class Given:
    """What the user gives a foreign model."""

    texts: tuple[str, ...] = ()
    images: str | None = None
    regions: str | None = None
    question: str | None = None
    query: int | None = None
    row: int | None = None
    most: int | None = None
    """At most so many texts or pictures."""


def foreign_cases(name: str, given: Given) -> Iterator[Case]:
    """Every text or picture that was given, to a model by its name."""
    return cases_of(load(name), given, name)


def cases_of(loaded: Loaded, given: Given, name: str = "the model") -> Iterator[Case]:
    """Every text or picture that was given, to a loaded model."""
    net = loaded.net
    if isinstance(net, EncoderAdapter | Gpt2Adapter):
        _refuse_others(name, given, "texts")
        for text in _texts(given, name):
            yield _text_case(net, _needed(loaded, name, "tokenizer"), text, given.row)
    elif isinstance(net, VitAdapter | TimmVitAdapter):
        _refuse_others(name, given, "images")
        for file, picture in _pictures(given, name):
            yield _vit_case(net, _needed(loaded, name, "image processor"), file, picture)
    elif isinstance(net, DetrAdapter):
        _refuse_others(name, given, "images")
        for file, picture in _pictures(given, name):
            yield from _detr_cases(net, _needed(loaded, name, "image processor"), file, picture, given.query)
    elif isinstance(net, LxmertAdapter):
        yield from _lxmert_cases(net, _needed(loaded, name, "tokenizer"), given, name)
    else:
        raise UserError(
            f"{name} is heard ({type(net).__name__}), but the command does not know its inputs. Explain it from Python: "
            "lit_attn.attribution.explain."
        )


def _needed(loaded: Loaded, name: str, what: str) -> Any:
    if loaded.processor is None:
        raise UserError(
            f"{name} came without its {what}, so that inputs cannot be prepared. Put its files into the folder."
        )
    return loaded.processor


def _refuse_others(name: str, given: Given, wanted: str) -> None:
    flags = {"texts": "--text", "images": "--images"}
    for kind, flag in flags.items():
        if kind != wanted and getattr(given, kind):
            raise UserError(f"{name} takes {flags[wanted]}, not {flag}.")


def _texts(given: Given, name: str) -> list[str]:
    """Sentences, or the lines of text files."""
    found: list[str] = []
    for text in given.texts:
        path = Path(text)
        if len(text) < 250 and path.suffix == ".txt":
            if not path.is_file():
                raise UserError(f"--text {text}: there is no such file.")
            found += [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        elif text.strip():
            found.append(text.strip())
    if not found:
        raise UserError(f"{name} reads text. Give it a sentence or a .txt file with one per line: --text '…'.")
    return found[: given.most]


def _pictures(given: Given, name: str) -> list[tuple[str, Image.Image]]:
    if given.images is None:
        raise UserError(f"{name} looks at pictures. Name one, or a folder of them: --images PLACE.")
    place = Path(given.images)
    files = sorted(file for file in place.iterdir() if file.suffix.lower() in SUFFIXES) if place.is_dir() else [place]
    if not files or not files[0].is_file():
        raise UserError(f"--images {place} holds no picture ({', '.join(SUFFIXES)}).")
    return [(file.name, _opened(file)) for file in files[: given.most]]


def _opened(file: Path) -> Image.Image:
    try:
        return ImageOps.exif_transpose(Image.open(file)).convert("RGB")
    except OSError as error:
        raise UserError(f"{file} is no picture that can be read: {error}.") from error


def _subject(net: Adapter, plan: Plan, run: Run, items: dict[str, Tensor]) -> Subject:
    """About the class that the network finds best."""
    with torch.no_grad(), evaluating(net):
        scores = run(net, {}, None)
    return Subject(net, plan, run, items, scores.argmax(-1))


def _kept_features(net: Adapter, features: Features | None, inputs: dict[str, Any]) -> Any:
    """A pass, with the first features of its streams where these are wanted."""
    if features is None:
        return net(**inputs)
    with net.embedded() as found:
        output = net(**inputs)
    features |= {stream: values for stream, values in found.items() if values.dim() == 3}
    return output


# Texts.


def _text_case(net: EncoderAdapter | Gpt2Adapter, tokenizer: Any, text: str, row: int | None) -> Case:
    inputs = dict(tokenizer(text, return_tensors="pt", truncation=True))
    ids = inputs["input_ids"][0]
    row = _answering_row(net, tokenizer, ids, row, text)
    special = torch.tensor([int(i) in tokenizer.all_special_ids for i in ids])
    movable = ~special
    if row is not None:
        movable[row] = False
    mask = torch.ones_like(ids).unsqueeze(0)

    def run(net: nn.Module, kept: Kept, features: Features | None) -> Tensor:
        hidden = movable & ~kept["text"][0] if "text" in kept else torch.zeros_like(movable)
        output = _kept_features(_own(net), features, inputs | {"attention_mask": mask.masked_fill(hidden, 0)})
        logits = getattr(output, "logits", None)
        if logits is None:
            raise UserError(
                f"{type(_own(net).model).__name__} has no head, so it answers nothing. Use a model with a classifier."
            )
        return logits if logits.dim() == 2 else logits[:, -1 if row is None else row]

    predicts = isinstance(net, Gpt2Adapter) or row is not None
    plan = net.plan(row)
    subject = _subject(net, plan, run, {"text": movable.unsqueeze(0)})
    words = tuple(tokenizer.convert_ids_to_tokens(ids.tolist()))
    shown_words = tuple(word.replace("Ġ", "").replace("▁", "") or "·" for word in words)
    if predicts:
        vocabulary = tuple(tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))))
    else:
        labels = config_of(net.model).id2label
        vocabulary = tuple(str(labels[i]) for i in range(len(labels)))
    place = "" if row is None else f"token {row}"
    return Case(
        subject,
        (Shown(text[:80], None, text, {"text": Words(shown_words)}, place),),
        partial(_name, vocabulary),
        vocabulary,
    )


def _answering_row(net: Adapter, tokenizer: Any, ids: Tensor, row: int | None, text: str) -> int | None:
    """The token that answers: the last one of GPT-2, the mask of a masked language model; None for a classifier's own."""
    if row is not None:
        if not 0 <= row < len(ids):
            raise UserError(f"--row {row}: {text!r} has {len(ids)} tokens, counted from 0.")
        return row
    if isinstance(net, Gpt2Adapter):
        return len(ids) - 1
    if not type(net.model).__name__.endswith("ForMaskedLM"):
        return None
    masks = (ids == tokenizer.mask_token_id).nonzero()[:, 0].tolist()
    if not masks:
        raise UserError(
            f"A masked language model answers at {tokenizer.mask_token}; put one into {text!r}, or name a --row."
        )
    return masks[0]


def _name(names: Sequence[str], sample: int, number: int) -> str:
    return names[number].replace("Ġ", "") if number < len(names) else f"class {number}"


def _own(net: nn.Module) -> Adapter:
    assert isinstance(net, Adapter)
    return net


# Pictures.


def _blanked(pixels: Tensor, kept: Tensor, rows: int, columns: int) -> Tensor:
    """Cells that are not kept become 0, the mean colour."""
    grid = kept.view(1, 1, rows, columns).to(pixels.dtype)
    return pixels * nn.functional.interpolate(grid, size=pixels.shape[-2:], mode="nearest")


def _seen(pixels: Tensor) -> Image.Image:
    """What the network sees, as a picture: each channel scaled to its range."""
    values = pixels.detach().float().cpu()
    low, high = values.amin((1, 2), keepdim=True), values.amax((1, 2), keepdim=True)
    scaled = (values - low) / (high - low).clamp_min(1e-6)
    return Image.fromarray((scaled * 255).byte().permute(1, 2, 0).numpy())


def _vit_case(net: VitAdapter | TimmVitAdapter, processor: Any, file: str, picture: Image.Image) -> Case:
    model: Any = net.model
    dtype = next(model.parameters()).dtype
    if isinstance(net, TimmVitAdapter):
        pixels = processor(picture).unsqueeze(0).to(dtype)
        side, named = model.patch_embed.patch_size, "x"
        labels: tuple[str, ...] = ()
    else:
        pixels = processor(picture, return_tensors="pt")["pixel_values"].to(dtype)
        patch, named = model.config.patch_size, "pixel_values"
        side = (patch, patch) if isinstance(patch, int) else patch
        labels = tuple(str(model.config.id2label[i]) for i in range(len(model.config.id2label)))
    rows, columns = pixels.shape[-2] // side[0], pixels.shape[-1] // side[1]

    def run(net: nn.Module, kept: Kept, features: Features | None) -> Tensor:
        seen = _blanked(pixels, kept["patches"], rows, columns) if "patches" in kept else pixels
        output = _kept_features(_own(net), features, {named: seen})
        return output if isinstance(output, Tensor) else output.logits

    items = {"patches": torch.ones(1, rows * columns, dtype=torch.bool)}
    views: dict[str, View] = {"patches": Cells(rows, columns)}
    shown = Shown(file, _seen(pixels[0]), file, views)
    return Case(_subject(net, net.plan(), run, items), (shown,), partial(_name, labels), labels)


def _detr_cases(net: DetrAdapter, processor: Any, file: str, picture: Image.Image, query: int | None) -> Iterator[Case]:
    model: Any = net.model
    inputs = dict(processor(picture, return_tensors="pt"))
    pixels = inputs["pixel_values"].to(next(model.parameters()).dtype)
    sizes: list[torch.Size] = []
    handle = net.embeddings["image"].register_forward_hook(lambda module, given, output: sizes.append(output.shape))
    try:
        with torch.no_grad(), evaluating(net):
            shares = net(pixel_values=pixels).logits.softmax(-1)[0, :, :-1].max(-1).values
    finally:
        handle.remove()
    rows, columns = sizes[0][-2:]
    if query is not None and not 0 <= query < len(shares):
        raise UserError(f"--query {query}: this model has queries 0 to {len(shares) - 1}.")
    sure = [int(i) for i in shares.argsort(descending=True) if shares[i] >= SURE][:MOST_QUERIES]
    chosen = [query] if query is not None else sure or [int(shares.argmax())]
    labels = tuple(str(model.config.id2label[i]) for i in range(len(model.config.id2label)))
    for number in chosen:

        def run(net: nn.Module, kept: Kept, features: Features | None, number: int = number) -> Tensor:
            seen = _blanked(pixels, kept["image"], rows, columns) if "image" in kept else pixels
            return _kept_features(_own(net), features, {"pixel_values": seen}).logits[:, number, :-1]

        items = {"image": torch.ones(1, rows * columns, dtype=torch.bool)}
        views: dict[str, View] = {"image": Cells(rows, columns)}
        shown = Shown(file, picture, file, views, f"query {number}")
        yield Case(_subject(net, net.plan(number), run, items), (shown,), partial(_name, labels), labels)


# Regions with a question.


def _lxmert_cases(net: LxmertAdapter, tokenizer: Any, given: Given, name: str) -> Iterator[Case]:
    if given.regions is None or not given.question:
        raise UserError(
            f"{name} needs regions and a question: --regions FOLDER (lit-attn extract regions) --question '…'. "
            "Pictures to draw on: --images FOLDER."
        )
    store = open_regions(Path(given.regions))
    wanted = config_of(net.model).visual_feat_dim
    if store.dim != wanted:
        raise UserError(f"The regions in {given.regions} have {store.dim} features; {name} was made for {wanted}.")
    words = dict(tokenizer(given.question, return_tensors="pt"))
    ids = words["input_ids"][0]
    movable = ~torch.tensor([int(i) in tokenizer.all_special_ids for i in ids])
    pictures = dict(_pictures(given, name)) if given.images else {}
    for place in store.names[: given.most or len(store.names)]:
        regions = store.read(place)
        yield _lxmert_case(net, tokenizer, given.question, words, movable, regions, place, pictures)


def _lxmert_case(
    net: LxmertAdapter,
    tokenizer: Any,
    question: str,
    words: dict[str, Tensor],
    movable: Tensor,
    regions: Any,
    name: str,
    pictures: dict[str, Image.Image],
) -> Case:
    dtype = next(net.model.parameters()).dtype
    features_of = torch.from_numpy(np.asarray(regions.features)).to(dtype).unsqueeze(0)
    boxes = torch.from_numpy(np.asarray(regions.relative_boxes)).to(dtype).unsqueeze(0)

    def run(net: nn.Module, kept: Kept, features: Features | None) -> Tensor:
        left = kept["image"][0] if "image" in kept else torch.ones(features_of.shape[1], dtype=torch.bool)
        text = kept["text"][0] | ~movable if "text" in kept else torch.ones_like(movable)
        inputs: dict[str, Any] = {key: value[:, text] for key, value in words.items()}
        inputs |= {"visual_feats": features_of[:, left], "visual_pos": boxes[:, left]}
        output = _kept_features(_own(net), features, inputs)
        scores = getattr(output, "question_answering_score", None)
        if scores is None:
            raise UserError(f"{type(_own(net).model).__name__} answers no questions. Use LxmertForQuestionAnswering.")
        return scores

    count = features_of.shape[1]
    items = {"text": movable.unsqueeze(0), "image": torch.ones(1, count, dtype=torch.bool)}
    labels = getattr(config_of(net.model), "id2label", {})
    answers = tuple(str(labels[i]) for i in range(len(labels))) if len(labels) > 2 else ()
    tokens = tuple(tokenizer.convert_ids_to_tokens(words["input_ids"][0].tolist()))
    views: dict[str, View] = {
        "image": Boxes(boxes[0].double().numpy(), tuple(regions.object_names or ("",) * count)),
        "text": Words(tokens),
    }
    picture = next((image for file, image in pictures.items() if Path(file).stem == Path(name).stem), None)
    shown = Shown(name, picture, question, views)
    return Case(_subject(net, net.plan(), run, items), (shown,), partial(_name, answers), answers)
