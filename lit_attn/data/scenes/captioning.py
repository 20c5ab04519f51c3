"""What would somebody say about a room? Scenes for the captioner and the paragraph writer, with the grammar as a yardstick."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import ClassVar

from PIL import Image
from torch.utils.data import Dataset

from lit_attn.data.captioning import CaptioningData
from lit_attn.data.pictures import Caption, Picture, Sample
from lit_attn.data.scenes.captions import captions
from lit_attn.data.scenes.checking import check, scene_facts, text_scores
from lit_attn.data.scenes.detections import detect
from lit_attn.data.scenes.paragraphs import paragraph
from lit_attn.data.scenes.render import render
from lit_attn.data.scenes.retelling import annotated
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.data.scenes.world import Scene
from lit_attn.ops.cider import cider_d
from lit_attn.types import Annotation, joined
from lit_attn.vocabulary import UNKNOWN, CaptionWords

CAPTIONS_PER_SCENE = 5
RIVAL = 1
"""The second of a scene's captions is kept apart: what the grammar itself scores against the others."""
VOCABULARY_SCENES = 2000
"""Training scenes whose text is read to collect the words."""
SHOWN_SIZE = 320


class ScenesDataset(Dataset[Sample]):
    """The first `size` scenes of a split with their text."""

    def __init__(self, data: "ScenesText", split: str, size: int) -> None:
        self.data, self.split, self.size = data, split, size
        # A scene with its detections takes 20 kB, and training comes back to it every epoch.
        self._sample = lru_cache(16384)(self._make)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Sample:
        return self._sample(index)

    def _make(self, index: int) -> Sample:
        data = self.data
        scene = make_scene(data.seed, self.split, index)
        found = detect(scene, count=data.regions, dim=data.region_dim)
        labels = tuple(f"{color} {kind}" for color, kind in zip(found.attributes, found.labels, strict=True))
        texts = data.texts(scene)
        references = tuple(text.text for text in texts)
        picture = Picture(index, found.features, found.boxes, found.thing, labels, scene.scene_id, references)
        return picture, [
            Caption(index * len(texts) + i, f"{scene.scene_id}-{i}", data.ids_of(text.tokens), text)
            for i, text in enumerate(texts)
        ]


class ScenesText(CaptioningData):
    """The embedded world with texts of one kind.

    Args:
        train_scenes, val_scenes, test_scenes: How many scenes of each split; sample i is always the same.
        test_split: `test`, or `compose` for scenes with attribute-category pairs never seen in training.
        region_dim, regions: Width and number of detections per scene.
        max_words: Longer texts are cut; by default hardly any is.
        seed: Of the world and of the order of training.
    """

    longest: ClassVar[int]
    """Words that are enough for such a text."""

    def __init__(
        self,
        train_scenes: int = 4000,
        val_scenes: int = 211,
        test_scenes: int = 503,
        test_split: str = "test",
        region_dim: int = 128,
        regions: int = 36,
        max_words: int | None = None,
        batch_size: int = 32,
        eval_batch_size: int = 64,
        num_workers: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(max_words or self.longest, batch_size, eval_batch_size, num_workers, seed)
        self.sizes = {"train": train_scenes, "val": val_scenes, test_split: test_scenes}
        self.test_split = test_split
        self.dim = region_dim
        self.regions = regions
        self._datasets: dict[str, ScenesDataset] = {}

    @staticmethod
    @abstractmethod
    def texts(scene: Scene) -> tuple[Annotation, ...]:
        """What is said about a scene."""

    @property
    def vocabulary(self) -> CaptionWords:
        return _words(type(self), self.seed)

    @property
    def region_dim(self) -> int:
        return self.dim

    def split_name(self, stage: str) -> str:
        return stage if stage in ("train", "val") else self.test_split

    def dataset(self, stage: str) -> ScenesDataset:
        split = self.split_name(stage)
        if split not in self._datasets:
            self._datasets[split] = ScenesDataset(self, split, self.sizes[split])
        return self._datasets[split]

    def training_references(self) -> Iterable[tuple[str, ...]]:
        for index in range(self.sizes["train"]):
            yield tuple(text.text for text in self.texts(make_scene(self.seed, "train", index)))

    def scene(self, image_id: int, stage: str) -> Scene:
        return make_scene(self.seed, self.split_name(stage), image_id)

    def show(self, image_id: int, stage: str) -> Image.Image:
        return render(self.scene(image_id, stage), size=SHOWN_SIZE)

    def text_scores(self, stage: str, texts: Mapping[int, str]) -> dict[str, float]:
        return text_scores(texts, lambda image_id: self.scene(image_id, stage))

    def annotated(self, stage: str, texts: Mapping[int, str]) -> dict[int, Annotation | None]:
        return {image_id: annotated(text, scene_facts(self.scene(image_id, stage))) for image_id, text in texts.items()}

    def verdicts(self, image_id: int, stage: str, text: str) -> str:
        found = check(text, self.scene(image_id, stage))
        return " ".join("true" if one.true else "false" if one.understood else "unclear" for one in found)


@lru_cache(maxsize=4)
def _words(kind: type[ScenesText], seed: int) -> CaptionWords:
    """All words of the texts of the first training scenes, and UNK for any other."""
    texts = (text.tokens for i in range(VOCABULARY_SCENES) for text in kind.texts(make_scene(seed, "train", i)))
    return CaptionWords((*CaptionWords.build(texts, min_count=1).words, UNKNOWN))


class ScenesCaptions(ScenesText):
    """Five captions per scene; a sixth is the grammar's own attempt, whose score is logged beside the model's."""

    longest = 30

    @staticmethod
    def texts(scene: Scene) -> tuple[Annotation, ...]:
        told = captions(scene, CAPTIONS_PER_SCENE + 1)
        return tuple(sentence.annotation for i, sentence in enumerate(told) if i != RIVAL)

    def reference_scores(self, stage: str) -> dict[str, float]:
        split = self.split_name(stage)
        return {"rival_cider": rival_cider(self.seed, split, self.sizes[split])}


@lru_cache(maxsize=8)
def rival_cider(seed: int, split: str, size: int) -> float:
    """CIDEr-D, times 100, of the grammar's own second caption of each scene against the other five."""
    scenes = [make_scene(seed, split, index) for index in range(size)]
    rivals = [captions(scene, RIVAL + 1)[RIVAL].annotation.tokens for scene in scenes]
    references = [[text.tokens for text in ScenesCaptions.texts(scene)] for scene in scenes]
    return 100 * float(cider_d(rivals, references).mean())


class ScenesParagraphs(ScenesText):
    """One paragraph of four to six sentences per scene."""

    longest = 90

    @staticmethod
    def texts(scene: Scene) -> tuple[Annotation, ...]:
        return (joined(tuple(sentence.annotation for sentence in paragraph(scene))),)
