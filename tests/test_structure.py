"""Does every import point the right way, and does light work stay light?"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "lit_attn"

MAY_IMPORT = {
    "errors": set(),
    "types": {"errors"},
    "ops": {"types", "errors"},
    "nn": {"ops", "types", "errors"},
    "models": {"nn", "ops", "types", "errors"},
    "metrics": {"ops", "types", "errors"},
    "probes": {"nn.tape", "metrics", "language", "ops", "types", "errors"},
    "attribution": {"nn.tape", "ops", "types", "errors"},
    "adapters": {"nn.tape", "attribution", "language", "ops", "types", "errors"},
    "tasks": {
        "files",
        "models",
        "nn",
        "decode",
        "metrics",
        "ops",
        "types",
        "vocabulary",
        "checkpoint",
        "extract.weights",
        "errors",
    },
    "explain": {
        "adapters",
        "attribution",
        "checkpoint",
        "data",
        "drawing",
        "files",
        "models.m4c",
        "probes.grounding",
        "run",
        "tasks",
        "types",
        "vocabulary",
        "errors",
    },
    "files": set(),
    "progress": set(),
    "language": {"types", "errors"},
    "drawing": set(),
    "callbacks": {
        "attribution",
        "drawing",
        "files",
        "probes",
        "metrics",
        "models.m4c",
        "nn.tape",
        "ops.answers",
        "types",
        "vocabulary",
        "errors",
    },
    "data": {
        "files",
        "progress",
        "language",
        "types",
        "vocabulary",
        "unpickle",
        "checkpoint",
        "ops.masks",
        "ops.retrieval",
        "ops.cider",
        "ops.answers",
        "ops.phoc",
        "ops.linking",
        "errors",
    },
    "vocabulary": {"errors"},
    "unpickle": {"errors"},
    "decode": {"errors"},
    "extract": {"data.regions", "ops", "files", "types", "errors"},
    "run": {"drawing.derived", "drawing.site_names", "files", "types", "errors"},
    "checkpoint": {"run", "vocabulary", "types", "errors"},
    "study": {"run.folder", "files", "errors"},
    "report": {"drawing", "study", "errors"},
    "cli": None,
    "_torchvision": {"extract.nms"},
    "__init__": {"_torchvision"},
    "__main__": {"cli"},
}
"""What a folder or top-level file may import of ours, besides itself. None: everything."""


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Our own modules that a file imports, without the leading `lit_attn.`."""
    here = path.relative_to(ROOT).with_suffix("").parts
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(here[: len(here) - node.level]) if node.level else ""
            module = ".".join(part for part in (base, node.module or "") if part)
            found |= {f"{module}.{alias.name}" for alias in node.names} | {module}
    return {name.removeprefix("lit_attn.") for name in found if name.startswith("lit_attn.")}


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_the_right_way(path):
    area = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    assert area in MAY_IMPORT, f"{area} is not on the map: add it to MAY_IMPORT and to the README"
    allowed = MAY_IMPORT[area]
    if allowed is None:
        return
    for name in imports(path):
        ours = name == area or name.startswith(f"{area}.")
        permitted = any(name == a or name.startswith(f"{a}.") or a.startswith(f"{name}.") for a in allowed)
        assert ours or permitted or name == "__version__", f"{area} must not import {name}"


def test_models_never_import_lightning_and_nobody_imports_wandb_at_the_top():
    for path in modules():
        tree = ast.parse(path.read_text())
        top = {
            alias.name.split(".")[0] if isinstance(node, ast.Import) else (node.module or "").split(".")[0]
            for node in tree.body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        }
        assert "wandb" not in top, path
        if path.parent.name in ("ops", "nn", "models", "probes", "metrics", "attribution"):
            assert "lightning" not in top, path


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["recipes", "ls"], ["recipes", "show", "tiny/scan"], ["doctor"]]
)
def test_light_verbs_import_neither_torch_nor_lightning(words):
    code = (
        "import sys; from lit_attn.cli.main import main; code = main(sys.argv[1:]); "
        "heavy = {'torch', 'lightning', 'transformers', 'numpy', 'matplotlib', 'spacy', 'wandb'} & set(sys.modules); "
        "assert not heavy, heavy; sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_module_opens_with_what_it_is_for(path):
    if path.name != "__init__.py":
        assert ast.get_docstring(ast.parse(path.read_text())), path


def test_no_word_about_how_it_is_made_and_no_machine_paths():
    for path in [
        *modules(),
        *(ROOT / "recipes").rglob("*.yaml"),
        *(ROOT / "docs").rglob("*.md"),
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
    ]:
        text = path.read_text().lower()
        assert "/work/" not in text, path
        assert "/root/" not in text, path


def test_constraints_pin_every_direct_dependency():
    import re
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = project["dependencies"] + [d for extra in project["optional-dependencies"].values() for d in extra]
    names = {re.split(r"[\[<>=!~ ]", d)[0].lower().replace("_", "-") for d in wanted} - {"lit-attn"}
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in lines if "==" in line}
    assert names <= pinned, f"not pinned: {sorted(names - pinned)}"


def recipes() -> list[Path]:
    return sorted((ROOT / "recipes").rglob("*.yaml"))


@pytest.mark.parametrize("path", recipes(), ids=lambda path: str(path.relative_to(ROOT / "recipes")))
def test_recipes_say_what_they_are_for_and_how_to_run_them(path):
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# ")
    assert lines[1].startswith("# Command: ")
    assert isinstance(yaml.safe_load(path.read_text()), dict)
