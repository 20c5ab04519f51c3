"""Do README and docs run as printed?

Every line of every ```sh block is run, small, in one folder that looks like a checkout (`tests/documented.py` has the rules);
every ```python block is executed, those of a page one after the other; a block with `title="NAME"` is written as that file
before anything runs, so that commands can use it. Blocks of other languages are `yaml`, `text`, `json` or `csv`.

To cover a new page: write its commands one to a line. If one fails here with "No rule", add a rule to `RULES`; if it needs a run
that no page trains by `--run NAME`, add that to `MADE_BY`; a new placeholder goes to `PLACES`.
"""

import csv
import importlib
import importlib.util
import inspect
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests import documented as doc
from tests.cli.conftest import Inside, run_inside

PAGES = doc.pages()
BLOCKS = [block for page in PAGES for block in doc.blocks(page)]
COMMANDS = [command for block in BLOCKS if block.language == "sh" for command in doc.commands(block)]
OTHER = ("yaml", "text", "json", "csv")


class Checkout:
    """A folder with the shipped weights in which commands run, each at most once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.done: dict[tuple[str, ...], Inside] = {}
        (folder / "checkpoints").mkdir()
        for file in (doc.ROOT / "checkpoints").iterdir():
            if file.suffix in (".safetensors", ".yaml"):
                (folder / "checkpoints" / file.name).symlink_to(file)
        for block in BLOCKS:
            if block.title:
                assert not (folder / block.title).exists(), (
                    f"{block.place}: another page shows a file {block.title}, too"
                )
                (folder / block.title).write_text(block.text, encoding="utf-8")

    def run(self, step: doc.Step) -> Inside:
        for name, maker in doc.needs(step):
            if not (self.folder / "checkpoints" / name).exists():
                made = self.run(doc.prepared(maker))
                assert made.returncode == 0, f"{maker}: {made.stderr}"
        if step.words not in self.done:
            self.done[step.words] = run_inside(self.folder, *step.words)
        return self.done[step.words]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checkout")
    path, loaded = list(sys.path), set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # names of a hub fail at once
        yield Checkout(folder)
    sys.path[:] = path
    for name in set(sys.modules) - loaded:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_every_block_says_what_it_is(block):
    known = ("sh", "python", *OTHER)
    assert block.language in known, f"{block.place}: ```{block.language} is unknown; use one of {', '.join(known)}"


@pytest.mark.parametrize(("place", "line"), COMMANDS, ids=[f"{place} {line[:60]}" for place, line in COMMANDS])
def test_commands_run(place, line, checkout):
    page = place.rsplit(":", 1)[0]
    step = doc.prepared(line, page)
    if step.how == "make":
        subprocess.run(["make", "-n", *step.words[1:]], cwd=doc.ROOT, check=True, capture_output=True)
        return
    if step.how == "elsewhere":
        assert " ".join(step.words[1:]) in (doc.ROOT / step.words[0]).read_text(encoding="utf-8"), line
        return
    if step.how == "import":
        assert importlib.util.find_spec(step.words[0]), line
        return
    done = checkout.run(step)
    if step.names is None:
        assert done.returncode == 0, f"{place}: {' '.join(step.words)}\n{done.stderr[-2000:]}\n{doc.HOW}"
    else:
        assert done.returncode == 2, f"{place}: code {done.returncode} instead of 2\n{done.stderr[-2000:]}\n{doc.HOW}"
        assert step.names in done.stderr, f"{place}\n{doc.HOW}"


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(block.page == page and block.language == "python" for block in BLOCKS)],
    ids=lambda page: str(page.relative_to(doc.ROOT)),
)
def test_examples_run(page, checkout, monkeypatch, capsys):
    monkeypatch.chdir(checkout.folder)
    monkeypatch.syspath_prepend(str(checkout.folder))
    loose = [block for block in BLOCKS if block.page == page and block.language == "python" and not block.title]
    file = checkout.folder / f"{page.stem}_example.py"
    file.write_text("\n".join(block.text for block in loose), encoding="utf-8")
    runpy.run_path(str(file))
    if page.name == "README.md":
        told = capsys.readouterr().out
        assert "torch.Size([5, 4, 25, 36])" in told
        assert "torch.Size([5, 36])" in told


def test_spoken_commands_have_a_verb_a_recipe_and_flags():
    from lit_attn.cli.main import HELP

    known = doc.known_recipes()
    sources = {file.stem: file.read_text(encoding="utf-8") for file in (doc.ROOT / "lit_attn" / "cli").glob("*.py")}
    for page in PAGES:
        for line in doc.spoken(page):
            verb = line.split()[1]
            assert re.search(rf"(^  |\| ){verb}\b", HELP, re.MULTILINE), f"{page}: `{line}`: no verb {verb}"
            for flag in (
                re.findall(r"--[a-z][a-z-]+", line) if verb in ("correlate", "explain", "convert", "study") else ()
            ):
                assert f'"{flag}"' in sources[verb], f"{page}: `{line}`: no flag {flag}"
            recipe = doc.recipe_of(line)
            assert recipe is None or recipe in known, f"{page}: `{line}`: no recipe {recipe}"


def test_named_settings_exist():
    """`--model.NAME` and `--data.NAME` in sentences, and calls such as `lit_attn.ops.x.f(argument=…)`."""
    from lit_attn.cli.training import SHIPPED

    settings = {name for kind in SHIPPED for name in inspect.signature(kind.__init__).parameters}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for name in re.findall(r"--(?:model|data)\.([a-z]\w*)", text):
            assert name in settings or "title=" in text, f"{page}: no model and no data set has a setting {name}"
        for path, argument in re.findall(r"`(lit_attn(?:\.\w+)+)\((\w+)=", text):
            place, _, called = path.rpartition(".")
            accepted = inspect.signature(getattr(importlib.import_module(place), called)).parameters
            assert argument in accepted, f"{page}: {path} takes no {argument}"


@pytest.mark.parametrize("page", ["README.md", "docs/reproduction.md"])
def test_scores_of_shipped_weights_are_those_of_the_manifest(page):
    """Every score of a row that begins with the name of weights stands in the manifest or in the header of a recipe."""
    manifest = yaml.safe_load((doc.ROOT / "checkpoints" / "manifest.yaml").read_text(encoding="utf-8"))
    rows = re.findall(r"^\| `(\w+)` \|[^|]+\|(.+)\|$", (doc.ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
    named = {name: cells for name, cells in rows if f"{name}.safetensors" in manifest}
    assert len(named) >= 5
    for name, cells in named.items():
        recipes = (doc.ROOT / "recipes").glob(f"{name}*.yaml")
        known = manifest[f"{name}.safetensors"]["score"] + " ".join(
            line for recipe in recipes for line in recipe.read_text().splitlines() if line.startswith("#")
        )
        told = [f"{100 * float(part):g}" for part in re.findall(r"\b0\.\d+", known)]
        for number in re.findall(r"\d+(?:\.\d+)?", re.sub(r"`[^`]*`", "", cells)):
            assert number in re.findall(r"\d+(?:\.\d+)?", known) + told, (
                f"{page}: {name}: where does {number} come from?"
            )


COPIES = {
    "docs/limits.md": ("docs/truth.md", "docs/study.md"),
    "docs/findings.md": ("docs/probes.md",),
}
"""Pages that repeat figures of others."""


@pytest.mark.parametrize("page", COPIES)
def test_repeated_figures_are_those_of_their_page(page):
    figures = set(re.findall(r"\b\d\.\d{3}\b", (doc.ROOT / page).read_text(encoding="utf-8")))
    sources = " ".join((doc.ROOT / source).read_text(encoding="utf-8") for source in COPIES[page])
    assert len(figures) > 5
    assert not sorted(figures - set(re.findall(r"\d\.\d{3}", sources)))


PRINTED = (
    "captioner --config probes/all", "scan", "mac --config probes/attribution_scores", "m4c --config probes/all", "paragraph",
    "attngan", "damsm", "classifier", "agreement", "sentiment",
)  # fmt: skip


def test_the_page_of_metrics_names_all_that_is_printed(checkout):
    page = (doc.ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    known = re.compile("|".join(_pattern(name) for name in re.findall(r"`([^`]+)`", page)))
    for recipe in PRINTED:
        step = doc.small(f"lit-attn fit tiny/{recipe} --root printed --trainer.log_every_n_steps 1")
        whole = ("--trainer.limit_val_batches", "1.0", *(("--data.oracle", "true") if recipe == "scan" else ()))
        done = checkout.run(doc.Step((*step.words, *whole)))
        assert done.returncode == 0, done.stderr
    names = set()
    for table in (checkout.folder / "printed").rglob("*.csv"):
        with table.open(newline="") as file:
            rows = list(csv.DictReader(file))
        told = [name for row in rows for key in ("metric", "finding", "table", "measure") if (name := row.get(key))]
        names |= set(told if told else rows[0])
    printed = {re.sub(r"^(train|val)/(attention/[^/]+/|attribution/\w+/)?", "", name) for name in names} - {
        "epoch",
        "step",
    }
    assert len(printed) > 100
    for file in re.findall(r"`(\w+/[\w/]+\.py)`", page):
        assert (doc.ROOT / "lit_attn" / file).is_file(), file
    unknown = [name for name in sorted(printed) if not known.fullmatch(name)]
    assert not unknown, f"describe these in docs/metrics.md: {unknown}"


def test_pages_list_every_verb_and_every_overlay():
    from lit_attn.cli.main import HELP

    command = (doc.ROOT / "docs" / "command.md").read_text(encoding="utf-8")
    for verb in re.findall(r"^  ([a-z]+(?: \| [a-z]+)*)", HELP, re.MULTILINE):
        for name in verb.split(" | "):
            assert re.search(rf"`{name}\b", command), f"docs/command.md: {name}"
    watch = (doc.ROOT / "docs" / "tour" / "watch.md").read_text(encoding="utf-8")
    for recipe in doc.known_recipes():
        assert not recipe.startswith("probes/") or f"`{recipe}`" in watch, f"docs/tour/watch.md: {recipe}"


def _pattern(name: str) -> str:
    """`pos_<tag>` matches `pos_noun`."""
    return "".join(r"\w+" if part.startswith("<") else re.escape(part) for part in re.split(r"(<[^>]+>)", name))


def test_a_command_without_a_rule_is_told_how_to_get_one():
    with pytest.raises(AssertionError, match=r"No rule runs this command.*tests/documented\.py"):
        doc.prepared("lit-attn dance --now")


def test_the_site_builds_strictly(tmp_path):
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("material") is None:
        pytest.skip('mkdocs-material is absent; pip install "lit_attn[docs]" to run it')
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=doc.ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nA new page must stand in the menu of mkdocs.yml."
    for page in (tmp_path / "site").rglob("*.html"):
        loaded = re.findall(r'(?:src|<link[^>]* href)="(?:https?:)?//[^"]+"', page.read_text(encoding="utf-8"))
        assert not loaded, f"{page.name} would load from the network: {loaded}"
