"""How do tests get thousands of scenes? From a plain process: types are checked at run time in this one, which is slow."""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable

import pytest

from lit_attn.data.scenes.world import Scene

MAKE = """
import pickle, sys
from lit_attn.data.scenes.rooms import make_scene
seed, split, count = sys.argv[1:]
pickle.dump([make_scene(int(seed), split, index) for index in range(int(count))], sys.stdout.buffer)
"""


@pytest.fixture(scope="session")
def run_elsewhere() -> Callable[..., bytes]:
    """Runs Python code in a process of its own and hands back what it wrote."""

    def run(code: str, *arguments: object) -> bytes:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", code, *map(str, arguments)]
        return subprocess.run(command, capture_output=True, check=True, env=environment).stdout

    return run


@pytest.fixture(scope="session")
def scenes_of(run_elsewhere: Callable[..., bytes]) -> Callable[[int, str, int], list[Scene]]:
    """The first `count` scenes of a split, as made by another process."""

    def made(seed: int, split: str, count: int) -> list[Scene]:
        return pickle.loads(run_elsewhere(MAKE, seed, split, count))  # noqa: S301

    return made
