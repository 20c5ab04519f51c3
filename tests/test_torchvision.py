"""Does torchvision import beside any build of torch, and is the repair kept away where nothing is broken?"""

import subprocess
import sys


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_the_package_imports_no_torch():
    assert python("import sys, lit_attn; print('torch' in sys.modules, 'torchvision' in sys.modules)") == "False False"


def test_torchvision_torchmetrics_and_lightning_import():
    assert python("import lit_attn, torchvision, torchmetrics, lightning; print('fine')") == "fine"


BROKEN = """
import lit_attn, torch
from lit_attn import _torchvision
_torchvision._extension_loads = lambda folder: False
import torchvision
boxes = torch.tensor([[0., 0., 10., 10.], [1., 1., 10., 10.], [20., 20., 30., 30.]])
print(torch.ops.torchvision.nms(boxes, torch.tensor([0.5, 0.9, 0.1]), 0.5).tolist(), len(_torchvision._KEPT))
"""


def test_without_the_extension_the_operators_are_declared_and_nms_works():
    assert python(BROKEN) == "[1, 2] 1"


WHOLE = """
import sys, types
import lit_attn
from lit_attn import _torchvision
_torchvision._extension_loads = lambda folder: True
from pathlib import Path
print(_torchvision.repair(Path('anywhere')), len(_torchvision._KEPT))
"""


def test_where_the_extension_loads_nothing_is_touched():
    assert python(WHOLE) == "False 0"


def test_the_repair_says_so_at_debug_level_only():
    code = "import logging; logging.basicConfig(level=logging.{}); " + BROKEN
    done = subprocess.run([sys.executable, "-c", code.format("DEBUG")], capture_output=True, text=True, check=True)
    assert done.stderr.count("extension does not load") == 1
    done = subprocess.run([sys.executable, "-c", code.format("INFO")], capture_output=True, text=True, check=True)
    assert "extension does not load" not in done.stderr
