"""Files of questions, features and tokens in the public layouts, written the way the original scripts write them."""

import json
import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path

import lmdb
import numpy as np

DIM = 11


def some_features(picture: str, count: int, dim: int = DIM) -> np.ndarray:
    return np.random.default_rng([count, *picture.encode()]).standard_normal((count, dim)).astype(np.float32)


def some_boxes(picture: str, count: int) -> np.ndarray:
    """Relative to the picture."""
    corners = np.random.default_rng([1, count, *picture.encode()]).random((count, 2))
    return np.concatenate([corners / 2, corners / 2 + 0.3], 1).astype(np.float32)


def mmf_entry(
    number: int, picture: str, question: str, answers: Sequence[str], tokens: Sequence[str], objects: int
) -> dict:
    """A question of `imdb_train_ocr_en.npy`."""
    return {
        "question": question,
        "question_id": number,
        "image_id": picture,
        "image_classes": ["Sign"],
        "image_width": 1024,
        "image_height": 730,
        "feature_path": f"{picture}.npy",
        "answers": list(answers),
        "ocr_tokens": list(tokens),
        "ocr_normalized_boxes": some_boxes(f"{picture} ocr", len(tokens)),
        "obj_normalized_boxes": some_boxes(picture, objects),
    }


def study_entry(number: int, picture: str, question: str, answers: Sequence[str], tokens: Sequence[str]) -> dict:
    """A question of `tvqa_train_imdb.npy`, with tokens of two OCR systems."""
    return {
        "question": question,
        "question_id": number,
        "image_id": picture,
        "image_width": 1024,
        "image_height": 730,
        "answers": list(answers),
        "ocr_tokens": ["rosetta"],
        "ocr_normalized_boxes": np.zeros((1, 4), np.float32),
        "google_ocr_tokens_filtered": list(tokens),
    }


def write_imdb(path: Path, entries: Sequence[object], header: bool = True) -> None:
    values = np.empty(len(entries) + header, object)
    values[:] = [*([{"creator": "x", "version": 0.5}] if header else []), *entries]
    np.save(path, values)


def write_lmdb(path: Path, entries: Mapping[str, object], keys: bool = False) -> None:
    """Pickled entries; with `keys`, their list under the key `keys`."""
    with lmdb.open(str(path), map_size=1 << 24) as opened, opened.begin(write=True) as writing:
        for key, entry in entries.items():
            writing.put(key.encode(), entry if isinstance(entry, bytes) else pickle.dumps(entry))
        if keys:
            writing.put(b"keys", pickle.dumps([key.encode() for key in entries]))


def write_ocr(path: Path, pictures: Mapping[str, Sequence[tuple[str, Sequence[float]]]]) -> None:
    """`ocr.jsonl` of pictures of 200 x 100 pixels."""
    with path.open("w") as file:
        for name, tokens in pictures.items():
            told = [{"text": text, "box": list(box), "confidence": 0.9} for text, box in tokens]
            file.write(json.dumps({"name": name, "width": 200, "height": 100, "tokens": told}) + "\n")
