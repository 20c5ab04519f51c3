"""Why does torchvision fail to import beside a CPU build of torch, and what cures it?

torchvision's wheels are linked against CUDA. Beside a CPU-only torch their extension does not load, so the operators
`torchvision::nms` and `torchvision::qnms` do not exist, and `import torchvision` fails while it registers their fake
versions; torchmetrics and lightning import torchvision and fail with it. Declaring the two operators first cures that.

The repair runs when torchvision is first imported, not before, and only when its extension cannot be loaded; importing
`lit_attn` itself stays free of torch. Only `nms` gets an implementation; the other compiled box operators stay absent.
"""

import importlib.abc
import importlib.machinery
import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

log = logging.getLogger(__name__)


class _BeforeTorchvision(importlib.abc.MetaPathFinder):
    """Steps aside after it has seen the first import of torchvision and mended what it needs."""

    def find_spec(
        self, name: str, path: Any, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name == "torchvision":
            sys.meta_path.remove(self)
            spec = importlib.machinery.PathFinder.find_spec(name, path)
            if spec is not None and spec.submodule_search_locations:
                repair(Path(next(iter(spec.submodule_search_locations))))
        return None


def repair_on_import() -> None:
    """Arrange for the repair; does nothing when torchvision is imported already."""
    waiting = any(isinstance(finder, _BeforeTorchvision) for finder in sys.meta_path)
    if "torchvision" not in sys.modules and not waiting:
        sys.meta_path.insert(0, _BeforeTorchvision())


def repair(folder: Path) -> bool:
    """Declare the operators that torchvision needs if its extension cannot be loaded. Returns whether it had to."""
    import torch

    if _extension_loads(folder) or hasattr(torch.ops.torchvision, "nms"):
        return False
    log.debug("torchvision's extension does not load beside this torch; declaring its operators without it.")
    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.impl("nms", _nms, "CPU")
    _KEPT.append(library)
    return True


_KEPT: list[object] = []
"""Operators vanish with their library object."""


def _extension_loads(folder: Path) -> bool:
    import torch

    libraries = [file for pattern in ("_C.so", "_C.*.so", "_C.pyd", "_C.dylib") for file in folder.glob(pattern)]
    for file in libraries:
        try:
            torch.ops.load_library(file)
        except OSError:
            continue
        return True
    return False


def _nms(dets: "Tensor", scores: "Tensor", iou_threshold: float) -> "Tensor":
    """The one implementation, imported when it is first called."""
    from lit_attn.extract.nms import nms

    return nms(dets, scores, iou_threshold)
