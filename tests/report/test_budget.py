"""Does the page of 100 samples × 6 layers × 8 heads stay within 30 MB, with every sample and map in it?"""

import json
import re

import numpy as np

from benchmarks.report_page import HEADS, LAYERS, REGIONS, SAMPLES, SITES, WORDS, write_large_run
from lit_attn.report.page import write_report

BUDGET = 30_000_000


def test_a_large_page_is_whole_and_within_its_budget(tmp_path):
    folder = write_large_run(tmp_path / "large")
    page = write_report([folder], figures=False)
    assert page.stat().st_size < BUDGET
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r'<script[^>]*id="sample-(\d+)"[^>]*>(.*?)</script>', text, re.DOTALL)
    assert len(blocks) == SAMPLES
    assert "samples fit in the page" not in text, "none is left out"
    shapes = [tuple(array["shape"]) for array in _arrays(json.loads(blocks[-1][1]))]
    sizes = {"words": WORDS, "regions": REGIONS}
    wanted = [(HEADS, sizes[query], sizes[key]) for query, key in SITES.values()]
    assert sorted(shapes) == sorted(wanted * LAYERS)


def _arrays(value):
    """Everything in a block that has a shape and bytes."""
    if isinstance(value, dict):
        if "shape" in value:
            assert len(value["codes"]) * 3 // 4 >= np.prod(value["shape"])
            yield value
        else:
            for item in value.values():
                yield from _arrays(item)
    elif isinstance(value, list):
        for item in value:
            yield from _arrays(item)
