"""Which commands do README and docs print, and how does each run in a second or two?

A command is a line of a ```sh block. `prepared` turns it into what a test does:

- placeholders (`RUN`, `DIR` …) become names, by `PLACES`;
- a run that the command reads is made first, by the command that prints `--run NAME`, or by `MADE_BY`;
- the first rule of `RULES` whose pattern is found in the line says what happens to it: `small` appends the flags of `SIZES` and
  runs it, `limited` does so with one batch for recipes and data of the page itself, `plain` and `adding` run it as printed or
  with more flags, `absent` runs it up to the short error that names what is not here, `target` asks make for its plan,
  `module` imports, `elsewhere` names the test that runs it.

A line that no rule matches fails its test. Most new commands match a rule of their verb; if yours needs a file that is not here,
add an `absent` rule above those.
"""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lit_attn.cli.recipes import recipe_names

ROOT = Path(__file__).parents[1]
HOW = "tests/documented.py says how commands of README and docs are run, and where to add a rule for a new one."


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int
    language: str
    title: str | None
    """Name of the file that it shows: ```python title="mine.py"."""
    text: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True)
class Step:
    """What a test does for one printed line."""

    words: tuple[str, ...]
    names: str | None = None
    """None: it succeeds. Else: it ends with code 2 and a message that has this in it."""
    how: str = "run"
    """run, make, import or elsewhere."""


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "checkpoints" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    """Fenced blocks, in order. A fence that is never closed is a mistake of the page."""
    found: list[Block] = []
    opened: tuple[int, str, str | None] | None = None
    lines: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if not line.lstrip().startswith("```"):
            lines.append(line)
        elif opened is None:
            info = line.strip().removeprefix("```").strip()
            title = re.search(r'title="([^"]+)"', info)
            opened, lines = (number, info.split(" ")[0], title[1] if title else None), []
        else:
            found.append(Block(page, *opened, "\n".join(lines) + "\n"))
            opened = None
    assert opened is None, f"{page}:{opened[0]}: this block is never closed"
    return found


def commands(block: Block) -> list[tuple[str, str]]:
    """Place and text of every line of a ```sh block, continued lines joined, comments off."""
    joined = re.sub(r"\\\n\s*", " ", block.text)
    found = []
    for number, line in enumerate(joined.splitlines(), block.line + 1):
        text = re.sub(r"\s+# .*$", "", line).strip()
        if text and not text.startswith("#"):
            found.append((f"{block.page.relative_to(ROOT)}:{number}", text))
    return found


def spoken(page: Path) -> list[str]:
    """Commands inside sentences: `lit-attn …` between backticks."""
    prose = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [" ".join(text.split()) for text in re.findall(r"`(lit-attn [^`]+)`", prose)]


PLACES = {
    "…": "",
    "RUN": "mine",
    "FILE": "checkpoints/mine/best.ckpt",
    "DIR": "no-such-data",
    "FOLDER": "no-such-folder",
    "REGIONS": "no-such-regions",
    "CAPTIONS": "ten.json",
    "PICTURES": "no-such-pictures",
}
"""What a placeholder stands for. Names with `no-such-` are for commands whose files are not here."""
PLACES_OF = {"agreement.md": {"RUN": "verbs", "FILE": "checkpoints/verbs/best.ckpt"}}
"""The same where a page means another kind of run."""

MADE_BY = {"verbs": "lit-attn fit agreement_grammar --run verbs"}
"""Runs that commands read and that no page trains by `lit-attn fit … --run NAME`: the command that makes them."""

_ONE = (
    "--trainer.max_epochs 1 --trainer.check_val_every_n_epoch 1 --trainer.limit_train_batches 1 "
    "--trainer.limit_val_batches 1 --trainer.devices 1 --trainer.strategy auto"
)
LIMITS = {
    "fit": _ONE,
    "validate": "--trainer.limit_val_batches 1",
    "ablate": "--trainer.limit_val_batches 1",
    "test": "--trainer.limit_test_batches 1",
    "predict": "--trainer.limit_predict_batches 1",
}
_SCENES = "--data.train_scenes 9 --data.val_scenes 3 --data.test_scenes 3 --data.batch_size 4"
SIZES = {
    "scan": f"{_SCENES} --data.oracle false",
    "captioner": _SCENES,
    "quickstart": _SCENES,
    "paragraph": _SCENES,
    "mac": _SCENES,
    "damsm": f"{_SCENES} --model.distractors 2",
    "attngan": f"{_SCENES} --model.distractors 2",
    "classifier": _SCENES,
    "m4c": "--data.train_questions 9 --data.val_questions 3 --data.test_questions 3 --data.batch_size 4",
    "sentiment": "--data.train_sentences 9 --data.val_sentences 3 --data.test_sentences 3 --data.batch_size 4",
    "agreement": "--data.train_sentences 9 --data.val_sentences 3 --data.test_sentences 3 --data.batch_size 4",
}
"""Flags that make a recipe quick, by the first word of its name (`tiny/captioner`, `captioner_scenes`)."""


def small(line: str) -> Step:
    """Run with the least data: the recipe is the second word."""
    words = shlex.split(line)[1:]
    model = re.split(r"[_/]", words[1].removeprefix("tiny/").removeprefix("study/"))[0]
    assert model in SIZES, f"{line}: no sizes for {model!r}. {HOW}"
    return Step((*words, *SIZES[model].split(), *LIMITS[words[0]].split()))


def limited(line: str) -> Step:
    """Run a recipe of the page, or one with data of the page, with one batch."""
    words = shlex.split(line)[1:]
    return Step((*words, *LIMITS[words[0]].split()))


def ablated(line: str) -> Step:
    """Of the tiny network, as it begins: a validation for each of its few heads."""
    return small(_UNREAD.sub("", line).replace(" captioner_scenes ", " tiny/captioner "))


_UNREAD = re.compile(r" --(ckpt_path|from_weights) \S+")


def plain(line: str) -> Step:
    return Step(tuple(shlex.split(line)[1:]))


def adding(more: str) -> Callable[[str], Step]:
    """Run with more flags."""
    return lambda line: Step((*shlex.split(line)[1:], *more.split()))


def absent(names: str) -> Callable[[str], Step]:
    """Run up to the error that names what is missing."""
    return lambda line: Step(tuple(shlex.split(line)[1:]), names)


def refused(names: str) -> Callable[[str], Step]:
    """Run with the least data up to the error that the page shows."""
    return lambda line: Step(small(line).words, names)


def target(line: str) -> Step:
    return Step(tuple(shlex.split(line)), how="make")


def module(line: str) -> Step:
    return Step(tuple(shlex.split(line)[2:3]), how="import")


def elsewhere(test: str, words: str) -> Callable[[str], Step]:
    """Too slow to run twice: another test runs it, and has these words in it."""
    return lambda line: Step((test, words), how="elsewhere")


RULES: Sequence[tuple[str, Callable[[str], Step]]] = (
    (r"^make [a-z]+$", target),
    (r"^python -m benchmarks\.", module),
    # What is not here: the published data and weights, and what they are made of.
    (r"fit captioner_coco", absent("dataset_coco.json")),
    (r"fit paragraph_tellmemore", absent("no-such-data")),
    (r"fit scan_(flickr30k|coco)", absent("no-such-data")),
    (r"fit mac_clevr", absent("no-such-data")),
    (r"validate m4c_textvqa", absent("m4c.ckpt")),
    (r"fit m4c_textvqa", absent("imdb_train_ocr_en.npy")),
    (r"fit (attngan|damsm)_(cub|coco)", absent("no-such-data")),
    (
        r"fit agreement_linzen_natural",
        absent("was trained with other answers"),
    ),  # the run of the page reads the grammar
    (r"fit agreement_linzen", absent("no-such-data")),
    (r"fit sentiment_sst2", absent("encoder.safetensors")),
    (r"convert bert", absent("no-such-folder")),
    (r"convert ort", absent("model-best.pth")),
    (r"convert attngan", absent("netG_epoch_600.pth")),
    (r"extract (regions|grid|ocr) no-such-pictures", absent("no-such-pictures")),
    (r"predict --from_weights (?!checkpoints/)", lambda line: absent(line.split()[3])(line)),
    (r"correlate \S+ --data no-such-data", absent("no-such-data")),
    (r"--ckpt_path checkpoints/coco/", absent("checkpoints/coco/best.ckpt")),
    (r"prepare links .*--images", absent("no-such-pictures")),
    (r"--data.object_names ", absent("objects_vocab.txt")),
    (r"prepare links|--data.link ", absent("no-such-regions")),
    (r"(report|explain) checkpoints/scenes\b", absent("checkpoints/scenes")),
    (r"explain truth-captioner ", absent("truth-captioner")),
    (r"compare .*--against ", absent("SmolLM2-135M-Instruct.Q4_1.gguf")),
    (r"(correlate|explain) hf:no-such-folder", absent("no-such-folder")),
    # What is here.
    (r"^lit-attn report --demo", elsewhere("tests/cli/test_demo.py", "--demo")),
    (r"^lit-attn (recipes|doctor|report)\b|^lit-attn( [a-z]+)? --(help|version)$", plain),
    (r"--print_config$", plain),
    (
        r"--run steady --resume auto --model",
        refused("--model.alignment: the run has 'scaled_dot', the command says 'dot'"),
    ),
    (r"^lit-attn ablate ", ablated),
    (r"^lit-attn (fit|validate|test|predict|ablate) (\S+\.yaml|.* --data [a-z])", limited),
    (r"^lit-attn (fit|validate|test|predict|ablate) [a-z]", small),
    (r"^lit-attn explain --methods help", plain),
    (r"^lit-attn explain ", adding("--samples 1")),
    (r"^lit-attn study .* -- ", lambda line: plain(line.replace(" -- ", " --dry-run -- "))),
    (r"^lit-attn study ", adding("--dry-run")),
)


def prepared(line: str, page: str = "") -> Step:
    """What to do for a printed line."""
    for placeholder, name in (PLACES | PLACES_OF.get(Path(page).name, {})).items():
        line = re.sub(rf"(?<![\w.]){placeholder}(?![\w.])", name, line)
    for pattern, rule in RULES:
        if re.search(pattern, line):
            return rule(" ".join(line.split()) if "'" not in line and '"' not in line else line)
    raise AssertionError(f"No rule runs this command: {line}. {HOW}")


@cache
def makers() -> dict[str, str]:
    """By the name of a run the first printed command that trains it."""
    found = dict(MADE_BY)
    for page in pages():
        for block in blocks(page):
            for _, line in commands(block) if block.language == "sh" else ():
                named = re.search(r"^lit-attn fit .*--run (\S+)", line)
                if named:
                    found.setdefault(named[1], line)
    return found


def needs(step: Step) -> list[tuple[str, str]]:
    """Runs that a command reads, each with the command that makes it."""
    read = [word for before, word in zip(("", *step.words), step.words, strict=False) if before != "--run"]
    return [
        (name, maker)
        for name, maker in makers().items()
        if any(word == name or word.startswith(f"checkpoints/{name}/") for word in read)
    ]


def recipe_of(line: str) -> str | None:
    """The recipe that a spoken command names, if it names one."""
    words = line.split()
    takes = len(words) > 2 and words[1] in (*LIMITS, "study")
    return words[2] if takes and re.fullmatch(r"[a-z0-9_/]+", words[2]) else None


def known_recipes() -> set[str]:
    return set(recipe_names())
