"""How is an annotation written as a line of JSON, and read again? Nothing but plain data; damaged lines are named."""

from collections.abc import Mapping
from typing import Any

from lit_attn.errors import UserError
from lit_attn.language.trees import check_heads
from lit_attn.types import Annotation, Phrase, SpatialTriple


def to_record(annotation: Annotation) -> dict[str, Any]:
    """Phrases and triples are left out where there are none."""
    record: dict[str, Any] = {
        "tokens": annotation.tokens,
        "lemmas": annotation.lemmas,
        "pos": annotation.pos,
        "heads": annotation.heads,
        "deps": annotation.deps,
    }
    if annotation.phrases:
        record["phrases"] = [[*phrase.span, phrase.head, list(phrase.objects)] for phrase in annotation.phrases]
    if annotation.triples:
        record["triples"] = [[*t.target, *t.relation, *t.landmark, t.kind] for t in annotation.triples]
    return record


def from_record(record: Mapping[str, Any], where: str) -> Annotation:
    """The annotation of a record; `where` names the file and the line in complaints."""
    try:
        tokens, lemmas, pos, deps = (tuple(map(str, record[name])) for name in ("tokens", "lemmas", "pos", "deps"))
        heads = tuple(map(int, record["heads"]))
        phrases = tuple(Phrase((a, b), head, tuple(objects)) for a, b, head, objects in record.get("phrases", ()))
        triples = tuple(
            SpatialTriple((a, b), (c, d), (e, f), kind) for a, b, c, d, e, f, kind in record.get("triples", ())
        )
        annotation = Annotation(tokens, lemmas, pos, heads, deps, phrases, triples)
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{where} is no annotation: {error!r}. Expected tokens, lemmas, pos, heads and deps of the same length."
        ) from error
    check_heads(heads, where)
    spans = [p.span for p in phrases] + [s for t in triples for s in (t.target, t.relation, t.landmark)]
    for start, end in spans:
        if not 0 <= start < end <= len(tokens):
            raise UserError(f"{where}: a span from {start} to {end} does not fit into {len(tokens)} tokens.")
    return annotation
