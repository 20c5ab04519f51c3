"""How large is the report of 100 samples × 6 layers × 8 heads, and how soon does a browser show it?

Budget: 30 MB, and two seconds to open. The run is made up: random maps of a captioner of the published size, which compress
worst, and drawn rooms. Opening is measured by Chromium where chromium, chromedriver and selenium are installed.

    python -m benchmarks.report_page
"""

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from lit_attn.data.scenes.render import render
from lit_attn.data.scenes.rooms import make_scene
from lit_attn.report.page import write_report

SAMPLES, LAYERS, HEADS = 100, 6, 8
WORDS, REGIONS = 18, 36
SITES = {
    "encoder.{}.self": ("regions", "regions"),
    "decoder.{}.self": ("words", "words"),
    "decoder.{}.cross": ("words", "regions"),
}
ROUNDS = 5


def write_large_run(folder: Path, samples: int = SAMPLES) -> Path:
    """A run folder with a gallery of whole samples and one table of heads."""
    random = np.random.default_rng(0)
    (folder / "gallery").mkdir(parents=True)
    (folder / "attention").mkdir()
    (folder / "metrics.csv").write_text("epoch,step,val/cider\n0,1,3\n1,2,4\n", encoding="utf-8")
    names = [site.format(layer) for site in SITES for layer in range(LAYERS)]
    rows = [f"{name},{head},entropy,{random.random()},9" for name in names for head in range(HEADS)]
    table = "\n".join(["site,head,metric,value,count", *rows]) + "\n"
    (folder / "attention" / "val-00000002.csv").write_text(table, encoding="utf-8")
    for number in range(samples):
        write_large_sample(folder / "gallery", number, random)
    return folder


def write_large_sample(gallery: Path, number: int, random: np.random.Generator) -> None:
    """A drawn room with random maps at every layer."""
    sizes = {"words": WORDS, "regions": REGIONS}
    words = [f"word{place}" for place in range(WORDS)]
    corners = np.sort(random.random((REGIONS, 2, 2)), axis=1).reshape(-1, 4)
    maps, arrays = [], {}
    for pattern, (query, key) in SITES.items():
        for layer in range(LAYERS):
            site = pattern.format(layer)
            maps.append({"key": site, "site": site, "call": 0, "query": query, "key_stream": key})
            arrays[site] = random.dirichlet(np.full(sizes[key], 0.3), (HEADS, sizes[query])).astype(np.float16)
    sample = {
        "sample_id": f"room-{number}",
        "words": words,
        "boxes": corners.tolist(),
        "labels": [f"thing {region}" for region in range(REGIONS)],
        "picture": f"room-{number}.png",
        "title": " ".join(words),
        "facts": {},
        "gold": [{"words": [3], "regions": [1, 2]}],
        "maps": maps,
    }
    render(make_scene(0, "val", number), size=320).save(gallery / f"room-{number}.png")
    np.savez(gallery / f"room-{number}.npz", **arrays)  # type: ignore[arg-type]
    (gallery / f"room-{number}.json").write_text(json.dumps(sample), encoding="utf-8")


def opening_times(page: Path) -> list[float]:
    """Seconds by the clock until a fresh browser shows a sample; nothing without a browser."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    try:
        from selenium import webdriver
    except ImportError:
        return []
    if not (chromium and driver):
        return []
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--window-size=1400,2200"):
        options.add_argument(flag)
    found = []
    for _ in range(ROUNDS):  # a new browser each time, so that nothing of the page is known to it
        browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
        try:
            begun = time.perf_counter()
            browser.get(page.resolve().as_uri())
            shown = browser.execute_script(
                "return [document.querySelectorAll('[data-pane] .box').length, document.querySelectorAll('#strip button').length]"
            )
            found.append(time.perf_counter() - begun)
        finally:
            browser.quit()
        assert shown == [REGIONS, SAMPLES], f"the page shows {shown}, not {REGIONS} boxes of one of {SAMPLES} samples"
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = write_large_run(Path(place) / "large")
        begun = time.perf_counter()
        page = write_report([folder], figures=False)
        sys.stdout.write(
            f"{SAMPLES} samples, {LAYERS} layers, {HEADS} heads: written in {time.perf_counter() - begun:.1f} s\n"
        )
        sys.stdout.write(f"size {page.stat().st_size / 1e6:.1f} MB (budget 30)\n")
        times = opening_times(page)
        told = f"{min(times):.2f} to {max(times):.2f} s (budget 2)" if times else "not measured: there is no browser"
        sys.stdout.write(f"opens in {told}\n")


if __name__ == "__main__":
    main()
