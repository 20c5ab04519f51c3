"""Where do the annotations of a data set come from? A spaCy pipeline, a CoNLL-U file, or a file of JSON lines.

Whatever the source, every text gets an annotation with exactly its tokens, noun phrases and spatial triples: gold ones where the
source has them, else those that the rules of `lit_attn.language` find.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from lit_attn.data.annotate import conllu
from lit_attn.data.annotate.pipeline import Tokens, open_pipeline
from lit_attn.data.annotate.store import annotated, read_records, store_path
from lit_attn.errors import UserError
from lit_attn.language.phrases import Exclude, Kind, noun_phrases
from lit_attn.language.spatial import spatial_triples
from lit_attn.types import Annotation

Texts = Mapping[str, Tokens]
"""Tokens by sample id."""


def annotate(
    texts: Texts,
    source: str,
    data: Path,
    phrases: Kind = "nested",
    exclude: Exclude = "exact",
    processes: int | None = None,
) -> dict[str, Annotation]:
    """Annotations by sample id.

    Args:
        texts: What to annotate.
        source: The name or folder of a spaCy pipeline, a `.conllu` file, or a `.jsonl` or `.jsonl.gz` file.
        data: The file or folder that the texts come from: annotations of a pipeline are kept beside it.
        phrases, exclude: Which noun phrases, see `noun_phrases`.
        processes: How many parse at once; by default as many as pay.
    """
    if source.endswith(".conllu"):
        found = _from_conllu(texts, Path(source))
    elif source.endswith((".jsonl", ".jsonl.gz")):
        found = _by_tokens(texts, {a.tokens: a for a in read_records(Path(source))}, source)
    else:
        pipeline = open_pipeline(source)
        known = annotated(texts.values(), pipeline, store_path(data, pipeline.name), processes)
        found = {name: known[text] for name, text in texts.items()}
    return {name: completed(annotation, phrases, exclude) for name, annotation in found.items()}


def completed(annotation: Annotation, phrases: Kind = "nested", exclude: Exclude = "exact") -> Annotation:
    """With noun phrases and spatial triples by rule, where it has none of its own."""
    return replace(
        annotation,
        phrases=annotation.phrases or noun_phrases(annotation, phrases, exclude),
        triples=annotation.triples or spatial_triples(annotation),
    )


def _from_conllu(texts: Texts, path: Path) -> dict[str, Annotation]:
    """By sample id where the file names it, else by tokens."""
    read = conllu.texts(conllu.read_conllu(path))
    named = {name: annotation for name, annotation in read if name is not None}
    for name in texts.keys() & named.keys():
        check_tokens(name, texts[name], named[name].tokens, str(path))
    rest = {name: text for name, text in texts.items() if name not in named}
    by_tokens = _by_tokens(rest, {annotation.tokens: annotation for _, annotation in read}, str(path), len(texts))
    return {name: replace(named[name], tokens=texts[name]) if name in named else by_tokens[name] for name in texts}


def _by_tokens(
    texts: Texts, known: Mapping[Tokens, Annotation], source: str, looked_for: int | None = None
) -> dict[str, Annotation]:
    """Annotations of texts with the same tokens; these are the rest of the `looked_for`, if others were found by name."""
    lowered = {_lowered(tokens): annotation for tokens, annotation in known.items()}
    missing = [name for name, text in texts.items() if _lowered(text) not in lowered]
    if missing:
        text = " ".join(texts[missing[0]])
        raise UserError(
            f"{source} has no annotation for {len(missing)} of {looked_for or len(texts)} texts, such as {missing[0]}: "
            f"{text[:80]!r}. "
            "An annotation needs the same tokens as the text, or a comment '# sample_id = …' that names it."
        )
    return {name: replace(lowered[_lowered(text)], tokens=text) for name, text in texts.items()}


def check_tokens(name: str, text: Tokens, tokens: Tokens, source: str) -> None:
    """The annotation of a sample must have the sample's tokens, whatever their case."""
    if _lowered(text) == _lowered(tokens):
        return
    at = next((i for i, (a, b) in enumerate(zip(text, tokens, strict=False)) if a.lower() != b.lower()), None)
    if at is None:
        told = f"the text has {len(text)} tokens and the annotation {len(tokens)}"
    else:
        told = f"token {at + 1} is {text[at]!r} in the text and {tokens[at]!r} in the annotation"
    raise UserError(f"The annotation of sample {name} in {source} does not fit its text: {told}.")


def _lowered(tokens: Tokens) -> Tokens:
    return tuple(token.lower() for token in tokens)
