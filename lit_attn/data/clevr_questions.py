"""What does a file of CLEVR's questions say? Pictures, words, answers and kinds of questions.

Files are as distributed: `CLEVR_{split}_questions.json`. Those of the test split have neither answers nor programs. Words
are made as in the public preprocessing: lower case, `? ! \\ / ( )` removed, `. , ; :` apart. A question's kind follows from
the last function of its program. A user's own questions are `.jsonl` or `.csv` (`question_files`), with names of pictures.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from sys import intern
from typing import Any

from lit_attn.data.question_files import OWN_SUFFIXES
from lit_attn.data.question_files import read_questions as read_own_questions
from lit_attn.errors import UserError, did_you_mean

_REMOVED = re.compile(r"[?!\\/()]")
_APART = re.compile(r"([.,;:])")

_ATTRIBUTES = ("color", "shape", "size", "material")
_KINDS = {
    "exist": "exist",
    "count": "count",
    **{f"query_{attribute}": "query_attribute" for attribute in _ATTRIBUTES},
    **{f"{verb}_{attribute}": "compare_attribute" for verb in ("equal", "same") for attribute in _ATTRIBUTES},
    **dict.fromkeys(("equal_integer", "less_than", "greater_than"), "compare_integer"),
}

Node = str | Mapping[str, Any]
"""A function of a program: its name, or the mapping that a file has, with the name as `function` or `type`."""


@dataclass(frozen=True)
class ClevrQuestion:
    """One question about one picture."""

    index: int
    """Its `question_index`, or its place in the file."""
    image_index: int
    image_file: str
    """Name of the picture's file, after its split and a slash; empty where the file does not say."""
    words: tuple[str, ...]
    answer: str | None
    """None where the file does not say."""
    kind: str
    """One of QUESTION_KINDS; empty where there is no program."""
    own_name: str = ""
    """What a user's own file calls the picture, without suffix: such files know no `image_index`."""

    @property
    def picture_name(self) -> str:
        """The name of the picture's file without suffix."""
        return self.own_name or PurePosixPath(self.image_file).stem


def question_words(question: str) -> tuple[str, ...]:
    """`Is it red, or not?` is `is it red , or not`."""
    return tuple(map(intern, _APART.sub(r" \1 ", _REMOVED.sub("", question.lower())).split()))


def question_kind(program: Sequence[Node]) -> str:
    """One of QUESTION_KINDS, from the last function."""
    if not program:
        raise UserError("its program is empty")
    last = _function(program[-1])
    if last not in _KINDS:
        raise UserError(
            f"its program ends in an unknown function {last!r}.{did_you_mean(str(last), _KINDS)} "
            f"Known: {', '.join(_KINDS)}"
        )
    return _KINDS[last]


def _function(node: Node) -> object:
    return node if isinstance(node, str) else node.get("function", node.get("type"))


def _shortened(entry: dict[str, Any]) -> dict[str, Any] | str:
    """Nodes of programs as their names, while the file is being read: 700,000 programs take gigabytes else."""
    name = _function(entry) if "inputs" in entry else None
    return intern(name) if isinstance(name, str) else entry


def read_questions(path: Path, split: str) -> list[ClevrQuestion]:
    """All questions of a file, in its order. `split` names the folder of the pictures where the file does not."""
    if path.suffix in OWN_SUFFIXES:
        return _own_questions(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"), object_hook=_shortened)
    except OSError as error:
        raise UserError(f"Cannot read the questions {path}: {error.strerror}.") from error
    except ValueError as error:
        raise UserError(f"{path} is no complete JSON: {error}.") from error
    entries = content.get("questions") if isinstance(content, dict) else None
    if not isinstance(entries, list) or not entries:
        raise UserError(f"{path} has no list of 'questions', or an empty one; expected CLEVR's layout.")
    numbered = all(isinstance(entry, dict) and "question_index" in entry for entry in entries)
    questions = []
    for place, entry in enumerate(entries):
        try:
            questions.append(_question(entry, entry["question_index"] if numbered else place, split))
        except UserError as error:
            raise UserError(f"{path}: question {place}: {error}.") from error
    seen: set[int] = set()
    for question in questions:
        if question.index in seen:
            raise UserError(f"{path} has two questions with the question_index {question.index}.")
        seen.add(question.index)
    return questions


def _own_questions(path: Path) -> list[ClevrQuestion]:
    numbers: dict[str, int] = {}
    questions = []
    for asked in read_own_questions(path):
        words = question_words(asked.text)
        if not words:
            raise UserError(f"{path}: question {asked.question_id}: it has no words, only {asked.text!r}.")
        questions.append(
            ClevrQuestion(
                index=asked.question_id,
                image_index=numbers.setdefault(asked.picture, len(numbers)),
                image_file=asked.picture,
                words=words,
                answer=asked.answers[0] if asked.answers else None,
                kind="",
                own_name=asked.names[-1],
            )
        )
    return questions


def _question(entry: Any, index: Any, split: str) -> ClevrQuestion:
    if not isinstance(entry, dict):
        raise UserError(f"it is {entry!r}; expected a mapping with 'question' and 'image_index'")
    text, answer = entry.get("question"), entry.get("answer")
    if not isinstance(text, str):
        raise UserError(f"its 'question' is {text!r}; expected text")
    words = question_words(text)
    if not words:
        raise UserError(f"it has no words, only {text!r}")
    file = entry.get("image_filename", "")
    program = entry.get("program")
    return ClevrQuestion(
        index=_number("question_index", index),
        image_index=_number("image_index", entry.get("image_index")),
        image_file=intern(f"{entry.get('split', split)}/{file}") if file else "",
        words=words,
        answer=None if answer is None else intern(str(answer)),
        kind="" if program is None else question_kind(program),
    )


def _number(name: str, value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UserError(f"its {name!r} is {value!r}; expected a number from 0")
    return value
