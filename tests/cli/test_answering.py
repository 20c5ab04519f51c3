"""Do MAC and M4C train, score and answer through the command, also questions of the user's own and bad ones?"""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from lit_attn.checkpoint import read_weights, write_weights
from lit_attn.data.regions import Regions, write_npz
from tests.cli.conftest import rows, run_inside
from tests.cli.test_resume import same

pytestmark = pytest.mark.slow
MAC = ["tiny/mac", "--data.train_scenes", "12", "--data.val_scenes", "7"]
M4C = ["tiny/m4c", "--data.train_questions", "16", "--data.val_questions", "7"]
DIM, SIDE = 24, 7


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder in which both were trained, and from their best checkpoints `mac.safetensors` and `m4c.safetensors`."""
    folder = tmp_path_factory.mktemp("trained")
    for name, words in (("mac", MAC), ("m4c", M4C)):
        done = run_inside(folder, "fit", *words, "--run", name)
        assert done.returncode == 0, done.stderr
        write_weights(
            read_weights(folder / "checkpoints" / name / "best.ckpt"), folder / "weights" / f"{name}.safetensors"
        )
    return folder


def best_row(run: Path, metric: str) -> dict[str, str]:
    validated = [row for row in rows(run / "metrics.csv") if row[metric]]
    return max(validated, key=lambda row: float(row[metric]))


def test_what_runs_leave(trained):
    last = rows(trained / "checkpoints" / "mac" / "metrics.csv")[-1]
    for name in ("accuracy", "accuracy_exist", "majority_accuracy", "majority_accuracy_count", "loss"):
        assert float(last[f"val/{name}"]) >= 0, name
    assert 0 < float(last["val/attention/read/entropy"]) <= 1
    assert json.loads((trained / "checkpoints" / "mac" / "run.json").read_text())["equivalence"] == "dot"
    last = rows(trained / "checkpoints" / "m4c" / "metrics.csv")[-1]
    for name in ("accuracy", "anls", "loss", "ceiling_accuracy"):
        assert float(last[f"val/{name}"]) >= 0, name
    assert 0 < float(last["val/attention/joint.1.self/entropy"]) <= 1


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("mac", ["ScenesQuestions", "--data.val_scenes", "7", "--data.questions_per_scene", "5", "--data.side", "7"]),
        ("m4c", ["ScenesReading", "--data.val_questions", "7", "--data.region_dim", "24", "--data.max_objects", "17"]),
    ],
)
def test_weights_alone_score_as_in_training(inside, trained, tmp_path, name, data):
    """No recipe, and classes by their bare names. MAC's weights are the average that training was judged by."""
    more = ["--data.grid_dim", "24"] if name == "mac" else []
    source = str(trained / "weights" / f"{name}.safetensors")
    words = ["--from_weights", source, "--data", *data, *more]
    done = inside("validate", *words, "--run", "again")
    assert done.returncode == 0, done.stderr
    (found,) = rows(tmp_path / "checkpoints" / "again" / "metrics.csv")
    known = best_row(trained / "checkpoints" / name, "val/accuracy")
    for metric in ("val/accuracy", "val/loss"):
        assert float(found[metric]) == pytest.approx(float(known[metric]), rel=1e-5), metric


def test_tasks_are_named_without_their_path(inside):
    words = ["--data.train_scenes", "4", "--data.val_scenes", "2", "--data.grid_dim", "5", "--data.side", "3"]
    model = ["--model", "Answering", "--model.dim", "6", "--model.word_dim", "5", "--model.steps", "1"]
    short = ["--trainer.max_epochs", "1", "--trainer.accelerator", "cpu", "--data.batch_size", "2"]
    done = inside("fit", *model, "--data", "ScenesQuestions", *words, *short)
    assert done.returncode == 0, done.stderr


def test_double_precision_is_resumed_to_the_bit(inside, tmp_path):
    """Checkpoints are float64, and so must be the network that takes them over."""
    fit = ["fit", *MAC, "--trainer.precision", "64-true"]
    for run, words in (("whole", []), ("parts", ["--trainer.max_epochs", "1"]), ("parts", ["--resume", "auto"])):
        done = inside(*fit, "--run", run, *words)
        assert done.returncode == 0, done.stderr
    one, two = (
        torch.load(tmp_path / "checkpoints" / run / "last.ckpt", weights_only=True) for run in ("whole", "parts")
    )
    for part in ("state_dict", "training_weights", "optimizer_states", "progress"):
        assert same(one[part], two[part]), part
    assert next(iter(one["training_weights"].values())).dtype == torch.float64


# The user's own pictures: grids.


def write_grids(path: Path, count: int = 3, dim: int = DIM, dataset: str = "features", names: bool = True) -> Path:
    with h5py.File(path, "w") as file:
        file[dataset] = np.random.default_rng(7).random((count, dim, SIDE, SIDE), np.float32)
        if names:
            file.create_dataset("names", data=[f"holiday/p{i}" for i in range(count)], dtype=h5py.string_dtype())
    return path


def ask_mac(inside, trained, questions: str, *more: str):
    words = ["--from_weights", str(trained / "weights" / "mac.safetensors"), "--data", "Clevr"]
    return inside("predict", *words, "--data.features", "x.h5", "--data.test_questions", questions, *more)


def test_own_questions_about_own_grids(inside, trained, tmp_path):
    """The words and the answers are those of the weights; a word that they do not know is just that."""
    write_grids(tmp_path / "x.h5")
    (tmp_path / "own.csv").write_text(
        "picture,question,answer\nholiday/p2.png,How many zebras are there?,2\np0,Is there a sofa?,\n"
    )
    done = ask_mac(inside, trained, "own.csv", "--run", "asked")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "checkpoints" / "asked" / "predictions.jsonl").read_text()
    first, second = map(json.loads, text.splitlines())
    answers = read_weights(trained / "weights" / "mac.safetensors").answers
    assert answers is not None
    assert first["answer"] in answers
    assert first["question"] == "how many zebras are there"
    assert (first["picture"], first["truth"]) == ("holiday/p2", "2")
    assert (second["picture"], second["question_id"]) == ("p0", 1)
    assert "truth" not in second


def test_own_answers_that_the_weights_do_not_know_are_wrong_and_not_trained_on(inside, trained, tmp_path):
    write_grids(tmp_path / "x.h5")
    (tmp_path / "own.jsonl").write_text(json.dumps({"picture": "p0", "question": "What?", "answer": "a zebra"}) + "\n")
    source = ["--from_weights", str(trained / "weights" / "mac.safetensors"), "--data", "Clevr"]
    words = [*source, "--data.features", "x.h5", "--data.num_workers", "0", "--data.batch_size", "1"]
    done = inside("validate", *words, "--data.val_questions", "own.jsonl", "--run", "wrong")
    assert done.returncode == 0, done.stderr
    (found,) = rows(tmp_path / "checkpoints" / "wrong" / "metrics.csv")
    assert float(found["val/accuracy"]) == 0
    done = inside("fit", "tiny/mac", *words, "--data.train_questions", "own.jsonl", "--data.val_questions", "own.jsonl")
    assert done.returncode == 2
    assert "does not list, such as 'a zebra'" in done.stderr


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("q.csv", "picture,question\np0,???\n", "q.csv: question 0: it has no words, only '???'"),
        ("q.csv", "picture,question\np0,\n", "q.csv, line 2 has no 'question'"),
        ("q.csv", "picture,question\np9,what?\n", "no grid of the picture 'p9'"),
        ("q.json", "{}", "q.json has no list of 'questions'"),
        ("q.json", '{"questions": [{"question": "x", "image_index": 0, "question_index": 1}, '
                   '{"question": "x", "image_index": 0, "question_index": 1}]}', "two questions with the question_index 1"),
        ("q.jsonl", '{"picture": "p0"}\n', "q.jsonl, line 1 has no 'question'"),
        ("q.txt", "what?", "q.txt is no complete JSON"),
    ],
)  # fmt: skip
def test_bad_questions_are_named(inside, trained, tmp_path, name, content, says):
    write_grids(tmp_path / "x.h5")
    (tmp_path / name).write_text(content)
    done = ask_mac(inside, trained, name)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"dim": 5}, "do not fit this model"),
        ({"dataset": "pixels"}, "has no dataset 'features' or 'data'; it holds names, pixels"),
        ({"names": False}, "has no names of pictures"),
        ("truncated", "is no complete HDF5 file"),
        ("flat", "expected floats [pictures, channels, rows, columns]"),
        ("NaN", "row 0 holds NaN or infinity"),
    ],
)
def test_bad_grids_are_named(inside, trained, tmp_path, change, says):
    """Also where a process of the loader finds out, without its traceback."""
    path = write_grids(tmp_path / "x.h5", **(change if isinstance(change, dict) else {}))
    if change == "truncated":
        path.write_bytes(path.read_bytes()[:-5000])
    elif change == "flat":
        with h5py.File(path, "w") as file:
            file["features"] = np.zeros((3, DIM), np.float32)
    elif change == "NaN":
        with h5py.File(path, "r+") as file:
            file["features"][0] = np.nan
    (tmp_path / "q.csv").write_text("picture,question\np0,What is it?\n")
    done = ask_mac(inside, trained, "q.csv", "--data.num_workers", "1" if change == "NaN" else "0")
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


# The user's own pictures: regions and printed words.


def write_regions(folder: Path, name: str, count: int) -> None:
    rng = np.random.default_rng(count)
    boxes = np.sort(rng.random((count, 2, 2), dtype=np.float32), 1).reshape(count, 4) * 200
    write_npz(Regions(name, rng.random((count, DIM), dtype=np.float32), boxes, 300, 200), folder / f"{name}.npz")


def write_tokens(folder: Path, tokens: dict[str, list[str]]) -> None:
    lines = [
        {
            "name": name, "width": 300, "height": 200, "sha256": "",
            "tokens": [{"text": text, "box": [1, 2, 30, 20], "confidence": 0.9} for text in texts],
        }
        for name, texts in tokens.items()
    ]  # fmt: skip
    folder.mkdir(exist_ok=True)
    (folder / "ocr.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def ask_m4c(inside, trained, questions: str, *more: str):
    words = ["--from_weights", str(trained / "weights" / "m4c.safetensors"), "--data", "OwnQuestions"]
    places = ["--data.regions", "regions", "--data.ocr", "ocr"]
    return inside("predict", *words, *places, "--data.questions", questions, *more)


def test_own_questions_about_pictures_without_objects_or_words(inside, trained, tmp_path):
    """Question words, answer words and steps come from the weights, and nothing else has to be named."""
    for name, count in (("all", 5), ("bare", 0), ("wordless", 40)):
        write_regions(tmp_path / "regions", name, count)
    write_tokens(tmp_path / "ocr", {"all": ["Tea", "\u2028", "COFFEE"], "bare": [], "wordless": []})
    asked = [("all.jpg", "what does the zebra say?"), ("bare", "which word is on it?"), ("wordless", "what?")]
    (tmp_path / "q.jsonl").write_text("".join(json.dumps({"picture": p, "question": q}) + "\n" for p, q in asked))
    done = ask_m4c(inside, trained, "q.jsonl", "--run", "asked")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "checkpoints" / "asked" / "predictions.jsonl").read_text()
    assert [json.loads(line)["picture"] for line in text.splitlines()] == ["all.jpg", "bare", "wordless"]
    words = {*read_weights(trained / "weights" / "m4c.safetensors").answers, "tea", "coffee"}
    for line in text.splitlines():
        said = json.loads(line)["answer"].split()
        assert len(said) <= 4, "as many steps as the weights were trained with"
        assert words.issuperset(said)


@pytest.mark.parametrize(
    ("questions", "says"),
    [
        ("picture,question\nmissing,what?\n", "1 of 1 pictures have no features, such as missing"),
        ("picture,question\nunread,what?\n", "ocr.jsonl"),
        ("picture,question\nall, \n", "Question 0 is empty: ' '"),
        ("photo,question\nall,what?\n", "q.csv, line 2 has no 'picture'"),
    ],
)
def test_what_a_reader_lacks_is_named(inside, trained, tmp_path, questions, says):
    for name in ("all", "unread"):
        write_regions(tmp_path / "regions", name, 3)
    write_tokens(tmp_path / "ocr", {"all": ["tea"]})
    (tmp_path / "q.csv").write_text(questions)
    done = ask_m4c(inside, trained, "q.csv")
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


class Hostile:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_an_imdb_with_code_is_refused_and_nothing_runs(inside, trained, tmp_path):
    flag = tmp_path / "ran"
    entries = np.array([{"question": "what?", "image_id": Hostile(flag)}], object)
    np.save(tmp_path / "imdb.npy", entries, allow_pickle=True)
    write_regions(tmp_path / "regions", "all", 3)
    words = [
        "--from_weights",
        str(trained / "weights" / "m4c.safetensors"),
        "--data",
        "TextVqa",
        "--data.max_steps",
        "4",
    ]
    done = inside("predict", *words, "--data.regions", "regions", "--data.test", "imdb.npy")
    assert done.returncode == 2, done.stderr
    assert "imdb.npy" in done.stderr
    assert not flag.exists()
    np.load(tmp_path / "imdb.npy", allow_pickle=True)
    assert flag.exists(), "the file is harmless, so this test proves nothing"


def test_files_that_ask_twice_or_have_few_answers(inside, trained, tmp_path):
    """Two questions must not share an id; fewer than ten answers are scored by those there are."""
    write_regions(tmp_path / "regions", "all", 3)
    write_tokens(tmp_path / "ocr", {"all": ["tea"]})
    entry = {"question_id": 3, "image_id": "all", "question": "what?", "answers": ["tea", "tea"]}
    words = [
        "--from_weights",
        str(trained / "weights" / "m4c.safetensors"),
        "--data",
        "TextVqa",
        "--data.max_steps",
        "4",
    ]
    words += ["--data.regions", "regions", "--data.ocr", "ocr", "--data.val", "v.json"]
    (tmp_path / "v.json").write_text(json.dumps({"data": [entry, entry]}))
    done = inside("validate", *words)
    assert done.returncode == 2
    assert "v.json has two questions with the question_id 3" in done.stderr
    (tmp_path / "v.json").write_text(json.dumps({"data": [entry]}))
    done = inside("validate", *words, "--run", "few")
    assert done.returncode == 0, done.stderr
    (found,) = rows(tmp_path / "checkpoints" / "few" / "metrics.csv")
    assert 0 <= float(found["val/accuracy"]) <= 1
