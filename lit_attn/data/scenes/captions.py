"""What would somebody say about a scene in one sentence? Different true captions, each of its own frame."""

from .binding import Binder
from .caption_frames import CAPTION_FRAMES
from .layout import Layout, text_random
from .telling import Sentence, Teller
from .world import Scene

__all__ = ["Sentence", "captions"]

_STRICT_TRIES = 100
_TRIES = 400


def captions(scene: Scene, count: int = 5, *, fewer: bool = False) -> tuple[Sentence, ...]:
    """`count` different true sentences about the scene; the first ones do not depend on `count`.

    A scene that allows less than `count` is an error, unless there may be `fewer`.
    """
    if count < 0:
        raise ValueError(f"Cannot make {count} captions; `count` must be 0 or more.")
    rng = text_random(scene, "captions")
    binder = Binder(scene, Layout(scene), rng)
    teller = Teller(scene, binder, rng)
    draw = rng.random
    told: list[Sentence] = []
    texts: set[tuple[str, ...]] = set()
    used: set[str] = set()
    pairs: set[frozenset[int]] = set()
    for attempt in range(_TRIES * count):
        if len(told) == count:
            break
        frame = CAPTION_FRAMES[int(draw() * len(CAPTION_FRAMES))]
        strict = attempt < _STRICT_TRIES
        if strict and frame.name in used:
            continue
        binding = binder.bind(frame)
        if binding is None:
            continue
        about = frozenset(binding.things.values()) if binding.group is None else frozenset(binding.group.things)
        if strict and about in pairs:
            continue
        sentence = teller.tell(frame, binding)
        if sentence.annotation.tokens not in texts:
            told.append(sentence)
            texts.add(sentence.annotation.tokens)
            used.add(frame.name)
            pairs.add(about)
    if len(told) < count and not fewer:
        raise ValueError(f"Scene {scene.scene_id} allows only {len(told)} different captions, not count={count}.")
    return tuple(told)
