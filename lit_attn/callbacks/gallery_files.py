"""How is a sample kept whole on disk? `<sample>.json`, `.npz` and `.png`, without torch and without pickles.

The key `form` says what the sample is: `caption` (regions and words), `steps` (a question answered in steps) or `reading` (a
question answered by reading). The JSON comes last, so that whoever finds it finds the rest, too.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from lit_attn.callbacks.answered import Answered
from lit_attn.callbacks.listening import file_name
from lit_attn.drawing.steps import StepsAnswer
from lit_attn.files import write_text, written_whole


def write_sample(
    folder: Path, sample: Mapping[str, Any], arrays: Mapping[str, np.ndarray], picture: Image.Image | None
) -> None:
    """One sample, named by its `sample_id`; weights are stored in half precision."""
    name = file_name(sample["sample_id"])
    with written_whole(folder / f"{name}.npz") as temporary, temporary.open("wb") as file:
        np.savez(file, **{key: array.astype(np.float16) for key, array in arrays.items()})  # type: ignore[arg-type]
    if picture is not None:
        with written_whole(folder / f"{name}.png") as temporary:
            picture.save(temporary, "PNG")
    named = dict(sample) | {"picture": None if picture is None else f"{name}.png"}
    write_text(folder / f"{name}.json", json.dumps(named, ensure_ascii=False))


def write_attribution(folder: Path, sample_id: str, arrays: Mapping[str, np.ndarray]) -> None:
    """What methods say of a sample, by `<method>.<query stream>.<key stream>`, in `attribution/` below the gallery."""
    with (
        written_whole(folder / "attribution" / f"{file_name(sample_id)}.npz") as temporary,
        temporary.open("wb") as file,
    ):
        np.savez(file, **{key: array.astype(np.float32) for key, array in arrays.items()})  # type: ignore[arg-type]


def write_answer(folder: Path, sample_id: str, asked: Answered, picture: Image.Image | None) -> None:
    """One answered question."""
    sample: dict[str, Any] = {"sample_id": sample_id, "words": list(asked.words), "answer": asked.answer}
    if isinstance(asked, StepsAnswer):
        causes = None if asked.causes is None else np.flatnonzero(asked.causes).tolist()
        sample |= {"form": "steps", "truth": asked.truth, "causes": causes}
        arrays = {"read": asked.read, "control": asked.control}
    else:
        sample |= {
            "form": "reading",
            "boxes": asked.boxes.tolist(),
            "ocr_words": list(asked.ocr_words),
            "ocr_boxes": asked.ocr_boxes.tolist(),
            "people": list(asked.people),
            "score": asked.score,
        }
        arrays = {name: getattr(asked, name) for name in ("question", "objects", "ocr", "decoded")}
    write_sample(folder, sample, arrays, picture)
