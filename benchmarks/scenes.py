"""How many scenes a second does one core make, without pixels, and what does each part cost?

A scene as training uses it: the room, 36 detections with features, five annotated captions. Target: 1,000 a second.
"""

import time
from collections.abc import Callable

from lit_attn.data.scenes.captions import captions
from lit_attn.data.scenes.detections import detect
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.data.scenes.world import Scene

SCENES = 500


def cost(work: Callable[[Scene], object], scenes: list[Scene]) -> float:
    """CPU milliseconds a scene."""
    start = time.process_time()
    for scene in scenes:
        work(scene)
    return (time.process_time() - start) / len(scenes) * 1e3


def main() -> None:
    scenes = [make_scene(0, "train", index) for index in range(SCENES)]
    parts: dict[str, Callable[[Scene], object]] = {
        "room": lambda scene: make_scene(1, "train", scene.index),
        "detections": detect,
        "captions": captions,
    }
    costs = {name: cost(work, scenes) for name, work in parts.items()}
    total = sum(costs.values())
    listed = ", ".join(f"{name} {value:.2f} ms ({value / total:.0%})" for name, value in costs.items())
    print(f"scenes: {1e3 / total:.0f} a second of CPU time; {listed}")


if __name__ == "__main__":
    main()
