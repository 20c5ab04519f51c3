"""Which captions belong to which room? Scenes as pictures and captions for SCAN, with an oracle as the ceiling."""

from functools import lru_cache

import numpy as np
from PIL import Image

from lit_attn.data.matching import MatchingData, MatchingSource
from lit_attn.data.pictures import Caption, Picture
from lit_attn.data.scenes.captions import captions
from lit_attn.data.scenes.detections import detect
from lit_attn.data.scenes.meaning import SceneFacts, satisfied
from lit_attn.data.scenes.render import render
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.data.scenes.world import KINDS
from lit_attn.data.vocab import Vocabulary
from lit_attn.ops.retrieval import retrieval_scores

CAPTIONS_PER_SCENE = 5
RARITY = 1e-3
"""Small against one fact of any caption: decides between equally true captions only."""
VOCABULARY_SCENES = 2000
"""Training scenes whose captions are read to collect the words."""


class ScenesSource(MatchingSource):
    """The first `size` scenes of a split."""

    def __init__(self, seed: int, split: str, size: int, vocabulary: Vocabulary, region_dim: int, regions: int) -> None:
        self.seed, self.split = seed, split
        self.num_pictures = size
        self.captions_per_picture = CAPTIONS_PER_SCENE
        self.vocabulary = vocabulary
        self.region_dim = region_dim
        self.regions = regions
        # A scene with its detections takes 20 kB, and training comes back to it every epoch.
        self.picture = lru_cache(16384)(self.picture)  # type: ignore[method-assign]
        self._captions = lru_cache(16384)(self._make_captions)

    def picture(self, index: int) -> Picture:
        found = detect(make_scene(self.seed, self.split, index), count=self.regions, dim=self.region_dim)
        labels = tuple(f"{color} {kind}" for color, kind in zip(found.attributes, found.labels, strict=True))
        return Picture(index, found.features, found.boxes, found.thing, labels)

    def categories(self, index: int) -> tuple[str, ...]:
        """The groups of the things in the room, such as furniture, and the kind of room."""
        scene = make_scene(self.seed, self.split, index)
        return (*sorted({KINDS[thing.kind].group for thing in scene.things}), scene.room)

    def caption(self, index: int) -> Caption:
        return self._captions(index // CAPTIONS_PER_SCENE)[index % CAPTIONS_PER_SCENE]

    def _make_captions(self, index: int) -> tuple[Caption, ...]:
        scene = make_scene(self.seed, self.split, index)
        return tuple(
            Caption(
                index * CAPTIONS_PER_SCENE + i,
                f"{scene.scene_id}-{i}",
                tuple(self.vocabulary.encode(sentence.annotation.tokens)),
                sentence.annotation,
            )
            for i, sentence in enumerate(captions(scene, CAPTIONS_PER_SCENE))
        )


@lru_cache(maxsize=4)
def scenes_vocabulary(seed: int) -> Vocabulary:
    """All words of the captions of the first training scenes."""
    sentences = (
        sentence.annotation.tokens
        for index in range(VOCABULARY_SCENES)
        for sentence in captions(make_scene(seed, "train", index), CAPTIONS_PER_SCENE)
    )
    return Vocabulary.build(sentences, min_count=1)


@lru_cache(maxsize=4)
def oracle_scores(seed: int, split: str, size: int) -> dict[str, float]:
    """Retrieval scores of somebody who understands every caption and sees every scene perfectly.

    It scores a pair by the share of the caption's facts that hold in the scene and, among equals, prefers captions that
    are true of fewer scenes of the set. Captions that are true of several scenes keep even the oracle from being
    perfect, so its scores are the ceiling that models are measured against.
    """
    scenes = [make_scene(seed, split, index) for index in range(size)]
    facts = [SceneFacts(scene) for scene in scenes]
    meanings = [sentence.meaning for scene in scenes for sentence in captions(scene, CAPTIONS_PER_SCENE)]
    shares = np.array([[satisfied(meaning, fact) for meaning in meanings] for fact in facts])
    true_of = (shares == 1).sum(0)
    return retrieval_scores(shares - RARITY * true_of / size, CAPTIONS_PER_SCENE)


class ScenesMatching(MatchingData):
    """The embedded world as a retrieval task.

    Args:
        train_scenes, val_scenes, test_scenes: How many scenes of each split; sample i is always the same.
        test_split: `test`, or `compose` for scenes with attribute-category pairs never seen in training.
        region_dim, regions: Width and number of detections per scene.
        seed: Of the world and of the order of training.
        oracle: Log the scores of a perfect reader as the ceiling.
    """

    def __init__(
        self,
        train_scenes: int = 4000,
        val_scenes: int = 211,
        test_scenes: int = 503,
        test_split: str = "test",
        region_dim: int = 128,
        regions: int = 36,
        batch_size: int = 128,
        eval_batch_size: int = 64,
        num_workers: int = 0,
        seed: int = 0,
        oracle: bool = True,
    ) -> None:
        super().__init__(batch_size, eval_batch_size, num_workers, seed)
        self.sizes = {"train": train_scenes, "val": val_scenes, test_split: test_scenes}
        self.test_split = test_split
        self.dim = region_dim
        self.regions = regions
        self.oracle = oracle

    @property
    def vocabulary(self) -> Vocabulary:
        return scenes_vocabulary(self.seed)

    @property
    def region_dim(self) -> int:
        return self.dim

    def split_name(self, stage: str) -> str:
        return stage if stage in ("train", "val") else self.test_split

    def open_split(self, split: str) -> ScenesSource:
        return ScenesSource(self.seed, split, self.sizes[split], self.vocabulary, self.dim, self.regions)

    def show(self, image_id: int, stage: str) -> Image.Image:
        return render(make_scene(self.seed, self.split_name(stage), image_id), size=320)

    def reference_scores(self, stage: str) -> dict[str, float]:
        if not self.oracle:
            return {}
        split = self.split_name(stage)
        scores = oracle_scores(self.seed, split, self.sizes[split])
        return {"ceiling_rsum": scores["rsum"]}
