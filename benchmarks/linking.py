"""How well do linkers find what noun phrases name? mAP@36 and accuracy on Scenes, where links are known.

The first 211 validation rooms with five captions each. Noun phrases are those that the rules find in the gold trees; the right
detections are those of the things that the phrase with the same head names. A phrase about nothing detected ("the room", or a
thing that the detector missed) cannot be linked. Chance is a linker that gives every detection the same score.

    python -m benchmarks.linking [LINKER ...] [--paragraphs]
"""

import argparse
import time
from collections.abc import Iterator

import numpy as np

from lit_attn.data.linking.linker import Linker, PhraseWords, Scores, phrase_words
from lit_attn.data.linking.named import LINKERS, open_linker
from lit_attn.data.regions import ATTRIBUTE_THRESHOLD
from lit_attn.data.scenes.captioning import ScenesCaptions, ScenesParagraphs
from lit_attn.data.scenes.detections import Detections, detect
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.language.phrases import noun_phrases
from lit_attn.ops.linking import LinkScores, link_scores, linked
from lit_attn.progress import shown
from lit_attn.types import Annotation

SCENES = 211
DETECTIONS = 36
RULES = tuple((kind, exclude) for kind in ("nested", "base") for exclude in ("exact", "contains"))


class Chance(Linker):
    """Knows nothing."""

    identity = "chance"

    def compare(self, phrases: list[PhraseWords], descriptions: list[str]) -> Scores:
        return np.zeros((len(phrases), len(descriptions)))


def descriptions(found: Detections) -> list[str]:
    """What the detector calls each box: the colour where it is sure enough of it, and the label."""
    sure = found.attribute_conf > ATTRIBUTE_THRESHOLD
    return [f"{a} {o}" if s else o for a, o, s in zip(found.attributes, found.labels, sure, strict=True)]


def judged(linker: Linker, texts: list[tuple[Annotation, Detections]], kind, exclude) -> Iterator[tuple]:
    """Scores and gold links of every phrase."""
    words = [phrase_words(text, phrase) for text, _ in texts for phrase in noun_phrases(text, kind, exclude)]
    linker.read_ahead(words, {description for _, found in texts for description in descriptions(found)})
    for text, found in texts:
        gold = {phrase.head: phrase.objects for phrase in text.phrases}
        phrases = noun_phrases(text, kind, exclude)
        scores = linker.scores([phrase_words(text, phrase) for phrase in phrases], descriptions(found))
        for phrase, row in zip(phrases, scores, strict=True):
            yield row, np.isin(found.thing, gold.get(phrase.head, ()))


def row(name: str, found: list[LinkScores]) -> str:
    cells = (
        f"{one.mean_ap:.3f} | {100 * one.accuracy:.1f} | {one.linkable_mean_ap:.3f} | {100 * one.linkable_accuracy:.1f}"
        for one in found
    )
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("linkers", nargs="*", default=list(LINKERS))
    parser.add_argument("--paragraphs", action="store_true")
    given = parser.parse_args()
    world = ScenesParagraphs if given.paragraphs else ScenesCaptions
    texts = []
    for index in range(SCENES):
        scene = make_scene(0, "val", index)
        texts += [(text, detect(scene, count=DETECTIONS)) for text in world.texts(scene)]
    begun = time.monotonic()
    rows, sizes, links = [], {}, {}
    for name in shown(["chance", *given.linkers], 1 + len(given.linkers), "linkers"):
        linker = Chance() if name == "chance" else open_linker(name)
        told = [list(judged(linker, texts, *rules)) for rules in RULES]
        found = [link_scores(one, DETECTIONS) for one in told]
        links[name] = [float(np.mean([linked(scores).sum() for scores, _ in one])) for one in told]
        sizes = dict(zip(RULES, found, strict=True))
        rows.append((name, found))
    for (kind, exclude), one in sizes.items():
        print(f"{kind}, {exclude}: {one.phrases} phrases, {one.linkable} linkable")
    for i, kind in enumerate(("nested", "base")):
        print(
            f"\n{kind}: mAP@36, accuracy % over all phrases; the same over linkable ones; by the two rules of exclusion\n"
        )
        for name, found in rows:
            print(row(name, found[2 * i : 2 * i + 2]))
    print(
        "\ndetections that a phrase is linked to, mean: "
        + ", ".join(" / ".join(map(str, RULES[i])) for i in range(len(RULES)))
    )
    for name, counts in links.items():
        print(f"| {name} | {' | '.join(f'{count:.2f}' for count in counts)} |")
    print(f"\n{len(texts)} texts of {SCENES} rooms, {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
