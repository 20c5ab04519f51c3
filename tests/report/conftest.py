"""A run folder as the other parts write it, with attention whose right answer is known."""

import csv
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image, ImageDraw

from lit_attn.report.page import write_report

WORDS = ["a", "red", "sofa", "stands", "left", "of", "the", "green", "plant", "under", "a", "big", "bright", "lamp"]
OBJECTS = ("sofa", "plant", "lamp", "table", "chair", "rug")
HUES = ((178, 60, 50), (60, 130, 70), (235, 205, 90), (140, 95, 60), (70, 90, 160), (120, 110, 140))
HEADS, LAYERS = 8, 3

RunWriter = Callable[..., Path]

BROWSER_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-sync",
    "--disable-component-update",
    "--window-size=1400,2200",
)
PARAGRAPH = "a red sofa , and a plant . it is big . the lamp hangs"
HOSTILE_TEXT = '<img src=x onerror="window.injected=1"> </script><script>window.injected=1</script> .'


def scores_at(step: int, seed: int) -> dict[str, float]:
    progress = 1 - np.exp(-step / 400)
    wobble = 4 * np.sin(step / 70 + seed) - max(0, step - 600) / 12
    recall = {
        f"val/{way}/r{k}": float(progress * base + wobble / 4)
        for way, bases in (("i2t", (61, 86, 93)), ("t2i", (48, 77, 86)))
        for k, base in zip((1, 5, 10), bases, strict=True)
    }
    return {"val/rsum": sum(recall.values()), **recall, "val/loss": float(3.2 - 2.4 * progress)}


def attention_at(step: int, layer: int) -> dict[str, float]:
    progress = 1 - np.exp(-step / 500)
    return {
        "entropy": float(3.58 - progress * (1 + 0.4 * layer)),
        "grounding_mass": float(0.083 + 0.35 * progress * (layer + 1) / LAYERS),
        "grounding_chance": 0.083,
        "pointing_accuracy": float(0.09 + 0.55 * progress * (layer + 1) / LAYERS),
        "pointing_chance": 0.09,
    }


def write_metrics(path: Path, steps: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows: list[dict[str, float]] = []
    for step in range(10, steps + 1, 10):
        row: dict[str, float] = {
            "epoch": step // 100,
            "step": step,
            "train/loss": 3 * np.exp(-step / 500) + rng.normal(0, 0.07) + 0.6,
        }
        row["lr"] = 5e-4 * min(1.0, step / 200)
        if step % 100 == 0:
            row |= scores_at(step, seed)
            for layer in range(LAYERS):
                site = f"val/attention/decoder.{layer}.cross"
                row |= {f"{site}/{name}": value for name, value in attention_at(step, layer).items()}
        rows.append(row)
    names = dict.fromkeys(["epoch", "step", *(name for row in rows for name in row)])
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(names))
        writer.writeheader()
        writer.writerows(rows)


def write_attention(folder: Path, steps: int, seed: int) -> None:
    folder.mkdir()
    rng = np.random.default_rng(seed)
    taste = rng.normal(0, 0.3, (LAYERS, HEADS))
    for step in range(100, steps + 1, 100):
        with (folder / f"val-{step:08d}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["site", "head", "metric", "value", "count"])
            for layer in range(LAYERS):
                for head in range(HEADS):
                    hidden = (layer, head) == (1, 5)
                    for metric, value in attention_at(step, layer).items():
                        size = 0.0 if metric.endswith("chance") else 1.0 if metric == "entropy" else 0.15
                        measured = "nan" if hidden and metric == "entropy" else value + size * taste[layer, head]
                        writer.writerow([f"decoder.{layer}.cross", head, metric, measured, 1840])
                    writer.writerow([f"encoder.{layer}.self", head, "entropy", 3.0 - taste[layer, head], 4096])


def softmax(scores: np.ndarray) -> np.ndarray:
    shifted = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def room(rng: np.random.Generator, path: Path | None) -> tuple[list[list[float]], list[str]]:
    """Six objects drawn as rectangles, and 36 noisy boxes around them."""
    width, height = 480, 360
    image = Image.new("RGB", (width, height), (232, 226, 214))
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 240, width, height), fill=(196, 176, 150))
    places = []
    for index, hue in enumerate(HUES):
        left, top = 20 + 150 * (index % 3) + rng.integers(0, 30), 40 + 160 * (index // 3) + rng.integers(0, 30)
        right, bottom = left + rng.integers(70, 120), top + rng.integers(60, 110)
        draw.rectangle((left, top, right, bottom), fill=hue, outline=(40, 35, 30), width=2)
        places.append((left / width, top / height, right / width, bottom / height))
    if path is not None:
        image.save(path)
    boxes, labels = [], []
    for index in range(36):
        place = np.array(places[index % 6]) + (rng.normal(0, 0.025, 4) if index >= 6 else 0)
        x1, y1, x2, y2 = np.clip(place, 0, 1)
        boxes.append([float(min(x1, x2)), float(min(y1, y2)), float(max(x1, x2)), float(max(y1, y2))])
        labels.append(OBJECTS[index % 6])
    return boxes, labels


def write_sample(folder: Path, number: int, *, heads: int = HEADS, **replaced: object) -> None:
    """One sample; keyword arguments replace keys of its JSON."""
    rng = np.random.default_rng(number)
    name = f"scene-{number}"
    boxes, labels = room(rng, folder / f"{name}.png" if number != 3 else None)
    words = replaced.get("words") or (WORDS if number % 2 == 0 else WORDS[:10])
    gold = [
        {"words": [place], "regions": [region for region, label in enumerate(labels) if label == word]}
        for place, word in enumerate(words)
        if word in labels
    ]
    scores = rng.normal(0, 1, (heads, len(words), len(boxes)))
    for link in gold:
        scores[:, link["words"][0], link["regions"]] += 2.5
    to_regions = softmax(scores).astype(np.float16)
    to_words = softmax(scores.swapaxes(1, 2)[:1] * 1.5).astype(np.float32)
    within = softmax(rng.normal(0, 1.5, (heads, len(words), len(words)))).astype(np.float16)
    maps = [
        {"key": "cross", "site": "decoder.2.cross", "call": 0, "query": "words", "key_stream": "regions"},
        {"key": "match", "site": "match", "call": 0, "query": "regions", "key_stream": "words"},
        {"key": "self", "site": "decoder.2.self", "call": 0, "query": "words", "key_stream": "words"},
    ]
    content = {
        "sample_id": name,
        "words": words,
        "boxes": boxes,
        "labels": labels,
        "picture": f"{name}.png" if number != 3 else None,
        "title": " ".join(words),
        "facts": {"room": "living room", "objects": 6, "rank": number + 1},
        "gold": gold,
        "maps": maps,
    }
    (folder / f"{name}.json").write_text(json.dumps(content | replaced))
    np.savez(folder / f"{name}.npz", cross=to_regions, match=to_words, self=within)


@pytest.fixture(scope="session")
def write_run() -> RunWriter:
    """Writes a run folder; keyword arguments replace keys of run.json."""

    def write(
        folder: Path, *, seed: int = 0, steps: int = 1000, samples: int = 5, heads: int = HEADS, **info: object
    ) -> Path:
        folder.mkdir(parents=True)
        content = {
            "name": folder.name,
            "recipe": "scan_scenes",
            "alignment": "general_query",
            "equivalence": None,
            "parameters": 1_284_096,
            "seed": seed,
            "verb": "fit",
            "status": "done",
            "started": "2026-03-01T10:00:00",
            "finished": "2026-03-01T10:12:31",
            "version": "0.1.0",
            "monitor": "val/rsum",
            "mode": "max",
            "facts": {"val/ceiling_rsum": 571.2, "scenes": 211},
        }
        (folder / "run.json").write_text(json.dumps(content | info))
        alignment = (content | info)["alignment"]
        model = {"alignment": alignment, "width": 256}
        config = {"seed_everything": seed, "model": model, "trainer": {"max_steps": steps}}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        write_metrics(folder / "metrics.csv", steps, seed)
        write_attention(folder / "attention", steps, seed)
        (folder / "gallery").mkdir()
        for number in range(samples):
            write_sample(folder / "gallery", number, heads=heads)
        return folder

    return write


@pytest.fixture(scope="session")
def sample_writer() -> Callable[..., None]:
    return write_sample


@pytest.fixture
def small_run(tmp_path: Path) -> Path:
    """A run whose report is quick to write: one score, one head metric, one sample."""
    folder = tmp_path / "checkpoints" / "small"
    (folder / "attention").mkdir(parents=True)
    (folder / "gallery").mkdir()
    (folder / "run.json").write_text(json.dumps({"name": "small", "monitor": "val/rsum", "mode": "max"}))
    (folder / "metrics.csv").write_text("epoch,step,val/rsum\n0,1,3\n1,2,4\n")
    (folder / "attention" / "val-00000002.csv").write_text("site,head,metric,value,count\nmatch,0,entropy,1.5,9\n")
    write_sample(folder / "gallery", 0, heads=1)
    return folder


@pytest.fixture
def run(tmp_path: Path, write_run: RunWriter) -> Path:
    return write_run(tmp_path / "checkpoints" / "scan-general-0")


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A headless Chromium that logs what it is asked for."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="install selenium to run it")
    chromium, driver_path = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver_path):
        pytest.skip("install chromium and chromium-driver to run it")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*BROWSER_FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver_path))
    yield driver
    driver.quit()


@pytest.fixture(scope="session")
def captioner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that writes paragraphs and has raw captures that look better than the used ones, with its report."""
    folder = tmp_path_factory.mktemp("runs") / "captioner"
    (folder / "attention").mkdir(parents=True)
    (folder / "gallery").mkdir()
    facts = {"val/rival_cider": 49.60082}
    (folder / "run.json").write_text(json.dumps({"monitor": "val/cider", "mode": "max", "facts": facts}))
    sites = ("decoder.0.cross", "raw.decoder.0.cross")
    names = [f"val/attention/{site}/{metric}" for site in sites for metric in ("grounding_mass", "grounding_chance")]
    scalars = ["epoch,step,val/cider,val/rival_cider," + ",".join(names), "0,1,30,49.60082,0.2,0.1,0.9,0.1"]
    (folder / "metrics.csv").write_text("\n".join([*scalars, "1,2,52.08086,49.60082,0.3,0.1,0.8,0.1"]) + "\n")
    rows = [
        f"{prefix}{site},{head},entropy,{value},7"
        for site, used, raw in (
            ("decoder.0.cross", (0.9, 0.8, 0.4), (0.7, 0.5, 0.3)),
            ("decoder.1.cross", (0.6, 0.5, "nan"), (0.25, 0.0, 0.125)),
            ("encoder.0.self", (1.0, 0.5, 0.75), (0.5, 0.25, 0.75)),
        )
        for prefix, values in (("", used), ("raw.", raw))
        for head, value in enumerate(values)
    ]
    (folder / "attention" / "val-00000002.csv").write_text("\n".join(["site,head,metric,value,count", *rows]) + "\n")
    maps = [
        {"key": "match", "site": "raw.decoder.2.cross", "call": 0, "query": "regions", "key_stream": "words"},
        {"key": "self", "site": "decoder.2.self", "call": 0, "query": "words", "key_stream": "words"},
        {"key": "cross", "site": "decoder.2.cross", "call": 0, "query": "words", "key_stream": "regions"},
    ]
    told: dict[int, dict[str, object]] = {number: {"written": PARAGRAPH, "room": "attic"} for number in range(14)}
    told[0]["verdicts"] = "true false unclear"
    told[1] = {"written": HOSTILE_TEXT, "verdicts": "true"}
    told[2]["written"] = ""
    told[4]["verdicts"] = "true false <b>maybe</b>"
    told[7]["verdicts"] = "true true"
    told[8]["verdicts"] = "false unclear false"
    told[5] = {"room": "hall"}
    for number, sample_facts in told.items():
        title = HOSTILE_TEXT if number == 1 else "a room with a sofa . a lamp , too ."
        write_sample(folder / "gallery", number, heads=1, maps=maps, facts=sample_facts, title=title)
    write_report([folder])
    return folder
