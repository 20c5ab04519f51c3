"""How well do a parser and our rules read real text? Tags, relations, noun phrases and spatial triples, against what is known.

python -m benchmarks.language ewt FILE.conllu              tags and relations against a treebank in Universal style
python -m benchmarks.language paragraphs FOLDER            what is found in the test texts of Tell-Me-More
python -m benchmarks.language paragraphs FOLDER --show 50  and so many triples, drawn by --seed, to be judged by a person
python -m benchmarks.language scenes                       spatial triples against gold, from gold trees and from the parser's
"""

import argparse
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from lit_attn.data.annotate import conllu
from lit_attn.data.annotate.pipeline import Pipeline
from lit_attn.data.scenes.captioning import ScenesCaptions, ScenesParagraphs
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.data.tell_me_more import read_tell_me_more
from lit_attn.language.phrases import noun_phrases
from lit_attn.language.relations import RELATIONS, relation_pairs
from lit_attn.language.spatial import spatial_triples
from lit_attn.progress import shown
from lit_attn.types import Annotation, Span, SpatialTriple

SCENES = 211
SENTENCE_ENDS = (".", "!", "?")


def parsed(pipeline: Pipeline, texts: Sequence[tuple[str, ...]]) -> list[Annotation]:
    return list(shown(pipeline.annotate(texts), len(texts), "texts parsed"))


def shared(gold: Iterable[set], found: Iterable[set]) -> tuple[int, int, int]:
    """Over all texts: in both, in the gold ones, found."""
    pairs = list(zip(gold, found, strict=True))
    right, true, told = (sum(map(len, column)) for column in zip(*((g & f, g, f) for g, f in pairs), strict=True))
    return right, true, told


def ewt(path: Path, pipeline: Pipeline) -> None:
    """Gold tokens are given to the parser; gold trees go through the mapping of labels."""
    gold = conllu.annotations(conllu.read_conllu(path), "universal")
    found = parsed(pipeline, [one.tokens for one in gold])
    tags = [(a, b) for one, other in zip(gold, found, strict=True) for a, b in zip(one.pos, other.pos, strict=True)]
    print(
        f"{path.name}: {len(gold)} sentences, {len(tags)} words; the same tag: {sum(a == b for a, b in tags) / len(tags):.4f}"
    )
    for tag in ("DET", "NOUN", "ADJ", "VERB", "ADP"):
        own = [b for a, b in tags if a == tag]
        print(f"  {tag}: {len(own)}, found {sum(b == tag for b in own) / len(own):.3f}")
    for name in RELATIONS:
        told = ([set(relation_pairs(one)[name]) for one in side] for side in (gold, found))
        right, true, told = shared(*told)
        print(f"  {name}: gold {true}, found {told}, precision {right / told:.3f}, recall {right / true:.3f}")


def paragraphs(folder: Path, pipeline: Pipeline, show: int, seed: int) -> None:
    texts = [text for picture in read_tell_me_more(folder) if picture.split == "test" for text in picture.captions]
    found = parsed(pipeline, texts)
    print(f"{len(found)} texts, {sum(map(len, found))} tokens")
    for kind in ("nested", "base"):
        for exclude in ("exact", "contains", "nothing"):
            print(f"  noun phrases, {kind}, {exclude}: {sum(len(noun_phrases(text, kind, exclude)) for text in found)}")
    triples = [(text, triple) for text in found for triple in spatial_triples(text)]
    kinds = Counter(triple.kind for _, triple in triples)
    print(
        f"  spatial triples: {len(triples)}: "
        + ", ".join(f"{kind} {kinds[kind]}" for kind in ("region", "direction", "distance"))
    )
    for number, (text, triple) in enumerate(random.Random(seed).sample(triples, min(show, len(triples))), 1):
        parts = " | ".join(said(text, span) for span in (triple.target, triple.relation, triple.landmark))
        print(f"{number:3d} [{parts}] {triple.kind} <- {sentence(text, triple)}")


def scenes(pipeline: Pipeline) -> None:
    """Gold triples hold between things; what is told of rooms, walls and floors has no gold and is counted apart."""
    for world in (ScenesCaptions, ScenesParagraphs):
        gold = [text for index in range(SCENES) for text in world.texts(make_scene(0, "val", index))]
        triples = [set(text.triples) for text in gold]
        explicit = [{t for t in text.triples if t.landmark[0] == t.relation[1]} for text in gold]
        for source, trees in (("gold trees", gold), (pipeline.name, parsed(pipeline, [text.tokens for text in gold]))):
            found = [set(spatial_triples(tree)) for tree in trees]
            between = [{t for t in own if named(text, t)} for text, own in zip(gold, found, strict=True)]
            apart = sum(map(len, found)) - sum(map(len, between))
            (right, true, told), (told_out, all_out, _) = shared(triples, between), shared(explicit, between)
            print(
                f"{world.__name__}, {len(gold)} texts, {source}: {told} found between things, precision {right / told:.3f}"
            )
            print(
                f"  recall {told_out / all_out:.3f} of {all_out} that name both ends, {right / true:.3f} of all {true}"
            )
            print(f"  {apart} more are about rooms, walls and floors")


def named(text: Annotation, triple: SpatialTriple) -> bool:
    """Whether both ends hold the noun of a thing."""
    heads = {phrase.head for phrase in text.phrases if phrase.objects}
    return all(any(head in range(*span) for head in heads) for span in (triple.target, triple.landmark))


def said(text: Annotation, span: Span) -> str:
    return " ".join(text.tokens[slice(*span)])


def sentence(text: Annotation, triple: SpatialTriple) -> str:
    spans = (triple.target, triple.relation, triple.landmark)
    start, end = min(a for a, _ in spans), max(b for _, b in spans)
    while start > 0 and text.tokens[start - 1] not in SENTENCE_ENDS:
        start -= 1
    while end < len(text) and text.tokens[end - 1] not in SENTENCE_ENDS:
        end += 1
    return said(text, (start, end))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("ewt", "paragraphs", "scenes"))
    parser.add_argument("path", type=Path, nargs="?")
    parser.add_argument("--pipeline", default="en_core_web_sm")
    parser.add_argument("--show", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if given.path is None and given.what != "scenes":
        parser.error(f"{given.what} needs a path")
    pipeline = Pipeline(given.pipeline)
    print(f"{pipeline.name} {pipeline.version}")
    if given.what == "ewt":
        ewt(given.path, pipeline)
    elif given.what == "paragraphs":
        paragraphs(given.path, pipeline, given.show, given.seed)
    else:
        scenes(pipeline)


if __name__ == "__main__":
    main()
