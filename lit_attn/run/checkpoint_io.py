"""How is a checkpoint written and read so that a crash, a full disk or a hostile file does no harm?

Written to a temporary name in the same folder, flushed to the disk, then renamed: the old file stays until the new one
is whole. Read with `weights_only=True`, so nothing in the file is executed.
"""

import contextlib
import errno
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch.plugins.io import TorchCheckpointIO

from lit_attn.errors import UserError


def load_checkpoint(path: Path) -> dict[str, Any]:
    """A Lightning checkpoint of ours, on the CPU; says what is wrong with anything else."""
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise UserError(f"There is no checkpoint {path}.{_neighbours(path)}") from error
    except OSError as error:
        raise UserError(f"Cannot read the checkpoint {path}: {error.strerror}.") from error
    except pickle.UnpicklingError as error:
        if zipfile.is_zipfile(path):
            raise UserError(
                f"{path} holds pickled code or objects, and is not loaded: running them could do anything. "
                f"Convert it to plain tensors first. ({_first_line(error)})"
            ) from error
        raise UserError(f"{path} is not a checkpoint.") from error
    except (RuntimeError, EOFError, ValueError, KeyError) as error:
        raise UserError(f"{path} is not a complete checkpoint: {_first_line(error)}") from error
    if not isinstance(checkpoint, dict) or "state_dict" not in checkpoint:
        raise UserError(f"{path} is not a Lightning checkpoint: it has no state_dict.")
    return checkpoint


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__


def _neighbours(path: Path) -> str:
    near = sorted(str(p) for p in path.parent.glob("*.ckpt")) if path.parent.is_dir() else []
    return f" In that folder: {', '.join(near)}." if near else ""


class SafeCheckpointIO(TorchCheckpointIO):
    """Lightning's checkpoint plugin with our way of writing and reading."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.tmp")
        try:
            with temporary.open("wb") as file:
                torch.save(checkpoint, file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except (OSError, RuntimeError) as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            # torch reports a failed write as a RuntimeError of its zip writer.
            if isinstance(error, RuntimeError) and "write" not in str(error).lower():
                raise
            full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
            reason = "the disk is full" if full else _first_line(error)
            raise UserError(
                f"Cannot write the checkpoint {path}: {reason}. The one before it is untouched; "
                "make room and go on with --resume auto."
            ) from error

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = None) -> dict[str, Any]:
        return load_checkpoint(Path(path))
