"""What should be painted when a room is told in one sentence? Scenes as pictures with captions, for AttnGAN and DAMSM.

Rooms are thinned to a few things, so that a small picture can show them. Picture, captions and truth all come from the
thinned room.
"""

import re
from functools import lru_cache
from random import Random

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lit_attn.data.scenes.asking import shown_cells
from lit_attn.data.scenes.captions import Sentence, captions
from lit_attn.data.scenes.grid import visible_shares
from lit_attn.data.scenes.render import render
from lit_attn.data.scenes.rooms import SPLITS, make_scene
from lit_attn.data.scenes.thinning import FEWEST, thinned
from lit_attn.data.scenes.world import COLORS, KINDS, Scene
from lit_attn.data.synthesis import Pictures, Saying, SynthesisData, View
from lit_attn.errors import UserError, did_you_mean
from lit_attn.types import Annotation
from lit_attn.vocabulary import CaptionWords

KIND_NAMES = tuple(KINDS)
VOCABULARY_SCENES = 1000
"""Training scenes of seed 0 whose captions are read to collect the words: they have all that the grammar knows."""
CELL = 4
"""Pixels across a cell of the grid on which words are found again."""
LONGEST = 30
"""Words that are enough for a caption."""
SHOWN_SIZE = 320
_SPOKEN = re.compile(r"\w")


@lru_cache(maxsize=1)
def caption_words() -> CaptionWords:
    """All words of captions, sorted; the same for every seed."""
    scenes = (make_scene(0, "train", index) for index in range(VOCABULARY_SCENES))
    found = {word for scene in scenes for told in captions(scene) for word in told.annotation.tokens}
    return CaptionWords(tuple(sorted(word for word in found if _SPOKEN.search(word))))


def things_of_words(annotation: Annotation) -> tuple[tuple[int, ...], ...]:
    """Per token the things that it is about: those that its noun phrase names."""
    about: list[tuple[int, ...]] = [()] * len(annotation)
    for phrase in annotation.phrases:
        for place in range(*phrase.span):
            about[place] += phrase.objects
    return tuple(about)


def colored_things(annotation: Annotation) -> frozenset[int]:
    """Things that are named with their colour: "a red cup", "a cup which is red" or "a cup is red"."""
    named = {phrase.head: phrase.objects for phrase in annotation.phrases}
    about = things_of_words(annotation)
    found: set[int] = set()
    for place, word in enumerate(annotation.tokens):
        if word in COLORS:
            found.update(about[place] or named.get(_subject(annotation, place), ()))
    return frozenset(found)


def _subject(annotation: Annotation, place: int) -> int:
    """Of what a colour is said by a verb."""
    verb = annotation.heads[place]
    if annotation.deps[verb] == "relcl":
        return annotation.heads[verb]
    subjects = (i for i, head in enumerate(annotation.heads) if head == verb and annotation.deps[i] == "nsubj")
    return next(subjects, verb)


class ScenePictures(Pictures):
    """The first `size` scenes of a split."""

    def __init__(self, data: "ScenesPictures", split: str, size: int) -> None:
        self.data, self.split, self.size = data, split, size
        # A room takes some 20 kB at 64 pixels across, and training comes back to it every epoch.
        self._view = lru_cache(16384)(self._paint)
        self._sayings = lru_cache(16384)(self._tell)

    def __len__(self) -> int:
        return self.size

    def class_id(self, picture: int) -> int:
        return picture

    def sayings(self, picture: int) -> tuple[Saying, ...]:
        return self._sayings(picture)

    def view(self, picture: int, chance: Random | None) -> View:
        view = self._view(picture)
        flipped = self.data.flip and chance is not None and chance.random() < 0.5
        return view.mirrored() if flipped else view

    def _paint(self, index: int) -> View:
        side, across = self.data.side, self.data.side // CELL
        scene = self.data.scene(index, self.split)
        areas = visible_areas(scene, across)
        return View(
            image_id=index,
            class_id=index,
            name=scene.scene_id,
            pixels=np.asarray(render(scene, size=side)),
            thing_cells=shown_cells(scene, across).reshape(-1, across, across),
            looks=scene_looks(scene, areas),
            main_thing=KIND_NAMES.index(scene.things[int(areas.argmax())].kind),
        )

    def _tell(self, index: int) -> tuple[Saying, ...]:
        count = self.data.captions_per_scene
        scene = self.data.scene(index, self.split)
        areas = visible_areas(scene, self.data.side // CELL)
        told = captions(scene, count, fewer=True)
        return tuple(_saying(scene, one, areas, index * count + i, i) for i, one in enumerate(told))


def visible_areas(scene: Scene, across: int) -> NDArray[np.float32]:
    """How much of the picture each thing takes, in cells."""
    return visible_shares(scene, across).sum((1, 2))


def scene_looks(scene: Scene, areas: NDArray[np.float32]) -> NDArray[np.int64]:
    """Per kind the colour of its largest thing; the number of colours where there is none."""
    looks = np.full(len(KIND_NAMES), len(COLORS), np.int64)
    for i in np.argsort(areas, kind="stable").tolist():
        looks[KIND_NAMES.index(scene.things[i].kind)] = COLORS.index(scene.things[i].color)
    return looks


def _saying(scene: Scene, told: Sentence, areas: NDArray[np.float32], caption_id: int, number: int) -> Saying:
    annotation, ids = told.annotation, caption_words().ids
    kept = [place for place, word in enumerate(annotation.tokens) if word in ids]
    about = things_of_words(annotation)
    main = max(colored_things(annotation), key=lambda i: (areas[i], -i), default=None)
    return Saying(
        caption_id=caption_id,
        sample_id=f"{scene.scene_id}-{number}",
        words=tuple(annotation.tokens[place] for place in kept),
        ids=tuple(ids[annotation.tokens[place]] for place in kept),
        things=tuple(about[place] for place in kept),
        main_kind=-1 if main is None else KIND_NAMES.index(scene.things[main].kind),
        main_color=-1 if main is None else COLORS.index(scene.things[main].color),
    )


class ScenesPictures(SynthesisData):
    """The embedded world as small pictures with captions.

    Args:
        train_scenes, val_scenes, test_scenes: How many scenes of each split; sample i is always the same.
        test_split: `test`, or `compose` for scenes with attribute-category pairs never seen in training.
        side: Pixels across a picture, a multiple of 4: a cell of `word_cells` is 4 pixels wide.
        things: Every room keeps at most so many things, and what these rest on; 0 for whole rooms.
        captions_per_scene: Captions of a scene; fewer where a thinned room does not allow so many.
        flip: Whether training mirrors half of the pictures. Captions then often mistake left for right.
        captions_per_picture: How many captions of a picture evaluation takes, one sample each.
        sentences: For `predict`: a text file with one sentence per line, a `.csv` with a column `caption`, or a sentence.
        seed: Of the world and of the order of training.
    """

    def __init__(
        self,
        train_scenes: int = 4000,
        val_scenes: int = 211,
        test_scenes: int = 503,
        test_split: str = "test",
        side: int = 64,
        things: int = 3,
        captions_per_scene: int = 5,
        flip: bool = False,
        captions_per_picture: int = 1,
        sentences: str | None = None,
        batch_size: int = 32,
        eval_batch_size: int = 64,
        num_workers: int = 0,
        seed: int = 0,
    ) -> None:
        super().__init__(
            LONGEST, LONGEST, captions_per_picture, sentences, batch_size, eval_batch_size, num_workers, seed
        )
        sizes = {"train_scenes": train_scenes, "val_scenes": val_scenes, "test_scenes": test_scenes}
        for name, value in (sizes | {"captions_per_scene": captions_per_scene}).items():
            if value < 1:
                raise UserError(f"data.{name} must be at least 1, got {value}.")
        if test_split not in SPLITS:
            known = f"{did_you_mean(test_split, SPLITS)} Known: {', '.join(SPLITS)}."
            raise UserError(f"data.test_split is {test_split!r}.{known}")
        if side < CELL or side % CELL:
            raise UserError(f"data.side must be a multiple of {CELL}, got {side}.")
        if things != 0 and things < FEWEST:
            raise UserError(f"data.things is {things}; a room keeps {FEWEST} things at least, and all of them with 0.")
        self.sizes = {"train": train_scenes, "val": val_scenes}
        self.sizes.setdefault(test_split, test_scenes)
        self.test_split = test_split
        self.things = things
        self.captions_per_scene = captions_per_scene
        self.flip = flip
        self._side = side

    @property
    def vocabulary(self) -> CaptionWords:
        return caption_words()

    @property
    def side(self) -> int:
        return self._side

    @property
    def kind_names(self) -> tuple[str, ...]:
        """What the numbers of kinds stand for."""
        return KIND_NAMES

    @property
    def color_names(self) -> tuple[str, ...]:
        """What the numbers of colours stand for."""
        return COLORS

    def split_name(self, stage: str) -> str:
        return stage if stage in ("train", "val") else self.test_split

    def read_pictures(self, split: str) -> ScenePictures:
        return ScenePictures(self, split, self.sizes[split])

    def scene(self, image_id: int, split: str) -> Scene:
        """The room as it is painted and told."""
        scene = make_scene(self.seed, split, image_id)
        return thinned(scene, self.things) if self.things else scene

    def show(self, image_id: int, stage: str) -> Image.Image | None:
        if stage == "predict" and self.sentences is not None:
            return None
        return render(self.scene(image_id, self.split_name(stage)), size=SHOWN_SIZE)
