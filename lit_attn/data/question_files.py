"""Which questions are asked about which pictures? Files of questions, by their suffix.

- `.npy`: an imdb file (`imdb`).
- `.json`: TextVQA as its authors distribute it, `TextVQA_0.5.1_train.json`. It has neither OCR tokens nor boxes.
- `.jsonl`: the user's own, one object per line with `picture` and `question`, perhaps `answer` or `answers` (a list).
- `.csv`: the user's own, with the columns `picture` and `question`, perhaps `answer`.
"""

import csv
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lit_attn.data.imdb import PictureQuestion, read_imdb
from lit_attn.errors import UserError, did_you_mean

OWN_SUFFIXES = (".jsonl", ".csv")


def read_questions(path: Path) -> list[PictureQuestion]:
    """All questions of a file, in their order; no two have one id."""
    readers = {".npy": read_imdb, ".json": _read_textvqa, ".jsonl": _read_lines, ".csv": _read_table}
    if path.suffix not in readers:
        raise UserError(f"Questions come from {', '.join(readers)} files; {path} is none of them.")
    try:
        questions = readers[path.suffix](path)
    except OSError as error:
        raise UserError(f"Cannot read the questions {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"The questions {path} are not UTF-8: {error}.") from error
    if not questions:
        raise UserError(f"{path} asks no question.")
    twice = [number for number, count in Counter(asked.question_id for asked in questions).items() if count > 1]
    if twice:
        raise UserError(f"{path} has two questions with the question_id {twice[0]}. Give each its own.")
    return questions


def _read_textvqa(path: Path) -> list[PictureQuestion]:
    try:
        return [
            PictureQuestion(
                question_id=int(entry["question_id"]),
                picture=str(entry["image_id"]),
                text=str(entry["question"]),
                answers=tuple(map(str, entry.get("answers") or ())),
            )
            for entry in json.loads(path.read_text(encoding="utf-8"))["data"]
        ]
    except UnicodeDecodeError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{path} is no TextVQA file, a JSON object with data[] of question_id, image_id and question: {error!r}."
        ) from error


def _read_lines(path: Path) -> list[PictureQuestion]:
    questions: list[PictureQuestion] = []
    for place, line in enumerate(path.read_text(encoding="utf-8").split("\n")):
        if line.strip():
            try:
                entry = json.loads(line)
            except ValueError as error:
                raise UserError(f"{path}, line {place + 1} is no JSON: {error}.") from error
            if not isinstance(entry, dict):
                raise UserError(f"{path}, line {place + 1} is no JSON object with picture and question.")
            questions.append(_own(entry, len(questions), f"{path}, line {place + 1}"))
    return questions


def _read_table(path: Path) -> list[PictureQuestion]:
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        return [_own(row, place, f"{path}, line {rows.line_num}") for place, row in enumerate(rows)]


def _own(entry: Mapping[str, Any], number: int, where: str) -> PictureQuestion:
    for name in ("picture", "question"):
        if not entry.get(name):
            near = did_you_mean(name, [key for key in entry if isinstance(key, str) and key != name])
            raise UserError(f"{where} has no {name!r}.{near} Each question needs a picture and a question.")
    answers = entry.get("answers") or ()
    if isinstance(answers, str):
        raise UserError(f"{where}: 'answers' is the text {answers!r}; expected a list of texts, or 'answer'.")
    answers = answers or ([entry["answer"]] if entry.get("answer") else ())
    return PictureQuestion(number, str(entry["picture"]), str(entry["question"]), tuple(map(str, answers)))
