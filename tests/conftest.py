"""What do tests share? Deterministic seeds, few threads, and the folder of golden and real data."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch

import lit_attn  # noqa: F401 - before lightning, so that torchvision imports beside any torch

SHARED = Path(os.environ.get("LIT_ATTN_SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
    np.random.seed(0)


@pytest.fixture(scope="session", autouse=True)
def _threads() -> None:
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def golden():
    """Loads `shared/golden/<path>` as tensors (numbers) or arrays (names); skips when the folder is absent."""

    def load(path: str) -> dict[str, torch.Tensor]:
        file = SHARED / "golden" / path
        if not file.exists():
            pytest.skip(f"{file} is absent; set LIT_ATTN_SHARED to the folder that holds golden/ to run it")
        with np.load(file, allow_pickle=False) as arrays:
            return {
                name: torch.from_numpy(arrays[name]) if arrays[name].dtype.kind in "fiub" else arrays[name]
                for name in arrays.files
            }

    return load


@pytest.fixture(scope="session")
def shared_data():
    """Path of a real data file below `shared/data`; skips when it is absent."""

    def find(path: str) -> Path:
        file = SHARED / "data" / path
        if not file.exists():
            pytest.skip(f"{file} is absent; set LIT_ATTN_SHARED to the folder that holds data/ to run it")
        return file

    return find
