"""What does a CoNLL-U file say about its sentences? Reads and writes them, with labels in Universal or in the papers' style.

Words are the syntactic words (lines 1, 2, 3 …); ranges such as `2-3` and empty nodes such as `4.1` are passed over. A comment
`# sample_id = NAME` says which text of a data set a sentence belongs to; sentences in a row with one name are one text.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from lit_attn.errors import UserError
from lit_attn.files import write_text
from lit_attn.language.labels import Style, papers_tree, style_of
from lit_attn.language.trees import check_heads
from lit_attn.types import Annotation, joined

COLUMNS = 10


@dataclass(frozen=True)
class Sentence:
    """A sentence as the file has it: labels are not mapped yet. Heads count from 0; the root's head is itself."""

    tokens: tuple[str, ...]
    lemmas: tuple[str, ...]
    pos: tuple[str, ...]
    heads: tuple[int, ...]
    deps: tuple[str, ...]
    sample_id: str | None
    line: int
    """Where it begins, counted from 1."""


def read_conllu(path: Path) -> list[Sentence]:
    """All sentences of a file."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not written in UTF-8: {error}.") from error
    sentences = [_sentence(path, number, rows, comments) for number, rows, comments in _blocks(path, lines)]
    if not sentences:
        raise UserError(f"{path} has no sentence. A CoNLL-U file has one word per line, in 10 columns.")
    return sentences


def annotations(sentences: Iterable[Sentence], style: Style | None = None) -> list[Annotation]:
    """With labels in the papers' style. Without `style`, the labels of all sentences together tell which they are in."""
    sentences = list(sentences)
    style = style or style_of([label for sentence in sentences for label in sentence.deps])
    found = []
    for s in sentences:
        heads, deps = papers_tree(s.heads, s.deps, s.pos, style)
        found.append(Annotation(s.tokens, s.lemmas, s.pos, heads, deps))
    return found


def texts(sentences: Iterable[Sentence], style: Style | None = None) -> list[tuple[str | None, Annotation]]:
    """(sample id or None, text); sentences in a row with one sample id are joined."""
    sentences = list(sentences)
    found: list[tuple[str | None, list[Annotation]]] = []
    for sentence, annotation in zip(sentences, annotations(sentences, style), strict=True):
        if sentence.sample_id is not None and found and found[-1][0] == sentence.sample_id:
            found[-1][1].append(annotation)
        else:
            found.append((sentence.sample_id, [annotation]))
    return [(name, joined(parts)) for name, parts in found]


def write_conllu(path: Path, annotated: Mapping[str, Annotation]) -> None:
    """Texts by sample id, one sentence per root, so that they can be corrected by hand and read again."""
    write_text(path, "".join(block for name, text in annotated.items() for block in _written(name, text)))


def _written(name: str, text: Annotation) -> Iterator[str]:
    for start, end in _sentence_spans(text):
        rows = [f"# sample_id = {name}", f"# text = {' '.join(text.tokens[start:end])}"]
        for i in range(start, end):
            head = 0 if text.heads[i] == i else text.heads[i] - start + 1
            cells = (i - start + 1, text.tokens[i], text.lemmas[i], text.pos[i], "_", "_", head, text.deps[i], "_", "_")
            rows.append("\t".join(map(str, cells)))
        yield "\n".join(rows) + "\n\n"


def _sentence_spans(text: Annotation) -> Iterator[tuple[int, int]]:
    """Shortest runs of tokens whose heads lie inside the run."""
    start, far = 0, 0
    last = {head: i for i, head in enumerate(text.heads)}
    for i, head in enumerate(text.heads):
        far = max(far, i, head, last.get(i, i))
        if far == i:
            yield start, i + 1
            start = i + 1


def _blocks(path: Path, lines: list[str]) -> Iterator[tuple[int, list[tuple[int, list[str]]], dict[str, str]]]:
    """(first line, rows with their line numbers, comments) of every sentence."""
    rows: list[tuple[int, list[str]]] = []
    comments: dict[str, str] = {}
    for number, line in enumerate([*lines, ""], 1):
        line = line.rstrip("\r")
        if line.startswith("#"):
            key, _, value = line[1:].partition("=")
            comments[key.strip()] = value.strip()
        elif line.strip():
            cells = line.split("\t")
            if len(cells) != COLUMNS:
                raise UserError(
                    f"{path}, line {number}: {len(cells)} columns separated by tabs; CoNLL-U has {COLUMNS}."
                )
            rows.append((number, cells))
        elif rows:
            yield rows[0][0], rows, comments
            rows, comments = [], {}


def _sentence(path: Path, first: int, rows: list[tuple[int, list[str]]], comments: Mapping[str, str]) -> Sentence:
    words = [(number, cells) for number, cells in rows if "-" not in cells[0] and "." not in cells[0]]
    heads = []
    for place, (number, cells) in enumerate(words):
        if cells[0] != str(place + 1):
            raise UserError(f"{path}, line {number}: the word has the number {cells[0]!r}, expected {place + 1}.")
        if not cells[6].isdecimal() or int(cells[6]) > len(words):
            raise UserError(
                f"{path}, line {number}: the head is {cells[6]!r}, expected a number from 0 to {len(words)}."
            )
        heads.append(place if int(cells[6]) == 0 else int(cells[6]) - 1)
    check_heads(heads, f"{path}, sentence at line {first}")
    columns = [tuple(cells[i] for _, cells in words) for i in (1, 2, 3, 7)]
    return Sentence(columns[0], columns[1], columns[2], tuple(heads), columns[3], comments.get("sample_id"), first)
