"""Is every pickle of plain data read as it was written, and does no other pickle get to run anything?"""

import argparse
import collections
import json
import os
import pickle
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lit_attn.errors import UserError
from lit_attn.unpickle import OBJECT_ARRAYS, PLAIN, read_pickle, unpickled

SHARED = Path(os.environ.get("LIT_ATTN_SHARED", Path(__file__).parents[2] / "shared"))
PROTOCOLS = range(6)
FLOAT = b"cnumpy\ndtype\n(S'f8'\ntR"


def shared(path: str) -> Path:
    file = SHARED / path
    if not file.exists():
        pytest.skip(f"{file} is absent; set LIT_ATTN_SHARED to the folder that holds it to run this")
    return file


@pytest.fixture
def read(tmp_path):
    """Writes bytes and reads them as a pickle."""

    def read_bytes(data: bytes):
        (tmp_path / "x.pkl").write_bytes(data)
        return read_pickle(tmp_path / "x.pkl")

    return read_bytes


leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
keys = st.integers() | st.text() | st.tuples(st.text(), st.integers())
plain = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(keys, inner) | st.sets(keys) | st.frozensets(keys)
    ),
    max_leaves=23,
)


@settings(max_examples=60, deadline=None)
@given(value=plain, protocol=st.sampled_from(PROTOCOLS))
def test_plain_data_comes_back_as_it_was_written(tmp_path_factory, value, protocol):
    path = tmp_path_factory.getbasetemp() / "plain.pkl"
    path.write_bytes(pickle.dumps(value, protocol))
    back = read_pickle(path)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_containers_of_other_modules_become_plain(read, protocol):
    shared_list = [1, 2]
    value = {
        "counts": collections.defaultdict(float, {("a", "b"): 2.0}),
        "order": collections.OrderedDict([("z", 1), ("a", 2)]),
        "options": argparse.Namespace(rate=0.5, name="x", layers=shared_list),
        "same": shared_list,
    }
    back = read(pickle.dumps(value, protocol))
    assert type(back["counts"]) is dict
    assert back["counts"] == {("a", "b"): 2.0}
    assert list(back["order"].items()) == [("z", 1), ("a", 2)]
    assert vars(back["options"]) == {"rate": 0.5, "name": "x", "layers": [1, 2]}
    assert back["same"] is back["options"].layers


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("dtype", ["<f8", ">f4", "<f2", "<i8", ">u2", "?", "<c16", "S5", "<U3", ">U3"])
def test_numpy_values_come_back(read, protocol, dtype):
    random = np.random.default_rng(0)
    array = (random.random((2, 3, 5)) * 90).astype(dtype)
    value = {
        "array": array,
        "fortran": np.asfortranarray(array),
        "empty": array[:, :0],
        "one": array[1, 2, 3],
        "zero_dim": np.array(array[0, 0, 0]),
        "again": None,
    }
    value["again"] = value["array"]
    data = pickle.dumps(value, protocol)
    back, unrestricted = read(data), pickle.loads(data)  # noqa: S301 - ours
    for name in ("array", "fortran", "empty", "zero_dim"):
        np.testing.assert_array_equal(back[name], value[name])
        assert back[name].dtype == unrestricted[name].dtype
        assert type(back[name]) is np.ndarray
    assert back["one"] == value["one"]
    assert not isinstance(back["one"], np.generic)
    assert back["again"] is back["array"]


@pytest.mark.parametrize("file", ["prepro/golden-train-words", "prepro/golden-train-idxs", "scst/train-idxs"])
def test_document_frequencies_of_python_2_equal_their_twins(file):
    back = read_pickle(shared(f"golden/ort/{file}.p"))
    twin = json.loads(shared(f"golden/ort/{file}.json").read_text())
    assert back["ref_len"] == twin["ref_len"]
    assert {" ".join(gram): count for gram, count in back["document_frequency"].items()} == twin["document_frequency"]


@pytest.mark.parametrize("kind", ["words", "idxs"])
def test_real_document_frequencies_are_those_of_the_captions(kind):
    """A slow count as the public script makes it: n-grams once per picture, over whole captions with their end."""
    images = json.loads(shared("data/karpathy_ucm/dataset.json").read_text())["images"]
    words = json.loads(shared("data/karpathy_ucm/cocotalk.json").read_text())["ix_to_word"]
    ids = {word: i for i, word in words.items()}
    counts: collections.Counter[tuple[str, ...]] = collections.Counter()
    train = [image for image in images if image["split"] == "train"]
    for image in train:
        grams = set()
        for sentence in image["sentences"]:
            known = [token if token in ids else "UNK" for token in sentence["tokens"]]
            # Words went through a text that was split at blanks, so empty tokens were lost; ids did not.
            tokens = [*" ".join(known).split(), "<eos>"] if kind == "words" else [*map(ids.get, known), "0"]
            grams |= {tuple(tokens[i : i + n]) for n in (1, 2, 3, 4) for i in range(len(tokens) - n + 1)}
        counts.update(grams)
    back = read_pickle(shared(f"data/karpathy_ucm/coco-train-{kind}.p"))
    assert back == {"ref_len": len(train), "document_frequency": counts}


@pytest.mark.parametrize(
    ("file", "lacks"),
    [
        ("checkpoint_python2/infos_relation_transformer_bu-best.pkl", set()),
        ("checkpoint_python2/infos_without_skip_option-best.pkl", {"legacy_extra_skip"}),
        ("checkpoint_python3/infos_relation_transformer_bu-best.pkl", set()),
    ],
)
def test_checkpoint_infos_equal_what_was_saved(file, lacks):
    infos = read_pickle(shared(f"golden/ort/{file}"))
    expected = json.loads(shared("golden/ort/checkpoint_python2/expected.json").read_text())
    options = {name: value for name, value in expected["opt"].items() if name not in lacks}
    assert vars(infos.pop("opt")) == options
    assert infos.pop("vocab") == expected["vocab"]
    assert infos == expected["infos"]


class Calls:
    """Pickles as a call of `function`."""

    def __init__(self, function, *values) -> None:
        self.call = (function, values)

    def __reduce__(self):
        return self.call


def hostile(command: str) -> dict[str, bytes]:
    """Pickles that would run `command`, each in another way."""
    word = command.encode()
    evil = Calls(os.system, command)
    nested = pickle.dumps(evil, 2)
    text = b"X" + struct.pack("<I", len(word)) + word
    many = {f"reduce, protocol {protocol}": pickle.dumps({"a": [evil]}, protocol) for protocol in PROTOCOLS}
    return many | {
        "eval": pickle.dumps(Calls(eval, f"__import__('os').system({command!r})"), 2),
        "exec": pickle.dumps(Calls(exec, f"__import__('os').system({command!r})"), 4),
        "getattr": pickle.dumps(Calls(getattr, Calls(__import__, "os"), "system"), 4),
        "dotted name": b"\x80\x04\x8c\x02os\x8c\x0bpath.system\x93" + text + b"\x85R.",
        "dotted way to the globals": b"\x80\x04\x8c\x0bcollections\x8c\x23defaultdict.__class__.__subclasses__\x93)R.",
        "factory": pickle.dumps(collections.defaultdict(os.system), 2),
        "inst": b"(S'" + word + b"'\nios\nsystem\n.",
        "inst of an allowed name": b"(S'" + word + b"'\nicollections\ndefaultdict\n.",
        "obj": b"(cos\nsystem\nS'" + word + b"'\no.",
        "newobj": b"\x80\x02cos\nsystem\n" + text + b"\x85\x81.",
        "newobj_ex": b"\x80\x04\x8c\x08argparse\x8c\x09Namespace\x93)}\x92.",
        "persistent id": b"Pos.system\n.",
        "binary persistent id": b"\x80\x02" + text + b"Q.",
        "extension": b"\x80\x02\x82\x01.",
        "built value": b"\x80\x02cos\nsystem\n}b.",
        "object scalar": pickle.dumps(Calls(np.core.multiarray.scalar, np.dtype("O"), nested), 2),
        "object array": pickle.dumps(np.array([evil], object), 4),
        "object array, in the buffer": pickle.dumps(np.array([evil], object), 5),
        "structured scalar": pickle.dumps(Calls(np.core.multiarray.scalar, np.dtype([("a", "O")]), nested), 2),
        "reconstructor": b"ccopy_reg\n_reconstructor\n(cos\nsystem\nc__builtin__\nobject\nNtR.",
        "numpy.load": pickle.dumps(Calls(np.load, command), 2),
        "codecs": b"c_codecs\ndecode\n(S'" + word + b"'\nS'rot13'\ntR.",
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", hostile(""))
def test_no_code_of_a_file_runs(read, tmp_path, kind):
    marker = tmp_path / "ran"
    with pytest.raises(UserError, match="x.pkl (is refused|is no complete pickle)"):
        read(hostile(f"touch {marker}")[kind])
    assert not marker.exists()


def test_the_hostile_pickles_do_run_elsewhere(tmp_path):
    """Else the test above would prove nothing."""
    marker = tmp_path / "ran"
    for kind in ("reduce, protocol 0", "eval", "inst", "obj", "object array"):
        pickle.loads(hostile(f"touch {marker}")[kind])  # noqa: S301 - that is the point
        assert marker.exists(), kind
        marker.unlink()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"cos\nsystem\n.", "wants to use os.system"),
        (b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.", "wants to use builtins.eval"),
        (b"(S'a'\nios\nsystem\n.", "wants to run the instruction INST"),
        (b"Pid\n.", "wants to run the instruction PERSID"),
        (b"\x80\x04\x8c\x08argparse\x8c\x09Namespace\x93)}\x92.", "wants to run the instruction NEWOBJ_EX"),
        (b"\x80\x02\x82\x01.", "wants to run the instruction EXT1"),
        (b"\x80\x05\x97.", "wants to run the instruction NEXT_BUFFER"),
        (b"S'a'\n(tR.", "wants to call a value of type str"),
        (b"c__builtin__\nfloat\n(S'1'\ntR.", "wants to call __builtin__.float"),
        (b"ccollections\ndefaultdict\n}b.", "wants to set the state of a value of type _Named"),
        (b"}}b.", "wants to set the state of a value of type dict"),
        (b"cnumpy\ndtype\n(S'O8'\ntR.", "the numpy type 'O8' is neither numbers nor strings"),
        (FLOAT + b"(I3\nS'O,'\ntb.", "the numpy type 'O,f8' is neither numbers nor strings"),
        (b"cnumpy.core.numeric\n_frombuffer\n(S'abcdefgh'\n" + FLOAT + b"(I-1\ntS'C'\ntR.", "has a negative length"),
        (b"ccopy_reg\n_reconstructor\n(c__builtin__\nfloat\nc__builtin__\nobject\nNtR.", "a built-in class is rebuilt"),
        (b"c__builtin__\nbytes\n(I99999999999\ntR.", "takes 0 positional arguments"),
        (b"c_codecs\nencode\n(Va\nVbz2\ntR.", "encoded in another way than latin-1"),
        (b"", "is no complete pickle of plain data: EOFError"),
        (b"\x80\x02}q\x00(U\x03", "is no complete pickle of plain data"),
        (b"hello\n", "is no complete pickle of plain data"),
        (b"\x80\x63.", "unsupported pickle protocol"),
    ],
)
def test_what_is_refused_is_named(read, data, message):
    with pytest.raises(UserError, match=message):
        read(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x05\x96" + struct.pack("<Q", 1 << 30) + b"abc.",
        b"\x80\x04\x8e" + struct.pack("<Q", 1 << 30) + b"abc.",
        b"cnumpy.core.multiarray\nscalar\n(" + FLOAT + b"I1073741824\ntR.",
        b"cnumpy.core.numeric\n_frombuffer\n(S'ab'\n" + FLOAT + b"(I1073741824\ntS'C'\ntR.",
        b"cnumpy.core.numeric\n_frombuffer\n(S''\ncnumpy\ndtype\n(S'S0'\ntR(I1073741824\ntS'C'\ntR.",
        b"cnumpy.core.numeric\n_frombuffer\n(S'ab'\n" + FLOAT + b"(S'x'\nI1073741824\ntS'C'\ntR.",
    ],
    ids=["bytearray", "bytes", "bytes from a number", "shape", "empty strings", "shape of strings"],
)
def test_no_file_reserves_memory_that_it_does_not_fill(read, data):
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="is no complete pickle of plain data"):
            read(data)
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("data", [b"\x80\x02Nr\xff\xff\xff\x7f.", b"\x80\x04\x95" + struct.pack("<Q", 1 << 30) + b"N."])
def test_a_high_place_in_the_memo_or_a_long_frame_costs_nothing(read, data):
    tracemalloc.start()
    try:
        assert read(data) is None
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()


def test_a_caller_may_allow_more_names(tmp_path):
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(collections.Counter("abb"), 2))
    with pytest.raises(UserError, match="wants to use collections.Counter"):
        read_pickle(tmp_path / "x.pkl")
    assert read_pickle(tmp_path / "x.pkl", {**PLAIN, ("collections", "Counter"): dict}) == {"a": 1, "b": 2}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_arrays_of_python_values_come_back_where_they_are_allowed(protocol):
    value = np.empty((2, 3), object)
    value[:] = [[{"a": [1, "b"]}, None, np.arange(5.0)], [("x",), 2.5, "é"]]
    for array in (value, value.T, value[:0], np.array({"a": 1}, object)):
        data = pickle.dumps({"array": array, "numbers": np.arange(3)}, protocol)
        back = unpickled(data, "x.npy", OBJECT_ARRAYS)
        assert back["array"].dtype == object
        assert back["array"].shape == array.shape
        assert pickle.dumps(back["array"].tolist()) == pickle.dumps(array.tolist())
        np.testing.assert_array_equal(back["numbers"], np.arange(3))
        with pytest.raises(UserError, match="x.npy is no complete pickle.*'O8' is neither numbers nor strings"):
            unpickled(data, "x.npy")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", hostile(""))
def test_no_code_runs_where_arrays_of_python_values_are_allowed(tmp_path, kind):
    marker = tmp_path / "ran"
    with pytest.raises(UserError, match="x.npy (is refused|is no complete pickle)"):
        unpickled(hostile(f"touch {marker}")[kind], "x.npy", OBJECT_ARRAYS)
    assert not marker.exists()


OBJECTS = b"cnumpy\ndtype\n(S'O8'\ntR"
UNFILLED = b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntS'b'\ntR"


@pytest.mark.parametrize(
    "data",
    [
        b"cnumpy.core.multiarray\nscalar\n(" + OBJECTS + b"S'abcdefgh'\ntR.",
        b"cnumpy.core.numeric\n_frombuffer\n(S'abcdefgh'\n" + OBJECTS + b"(I1\ntS'C'\ntR.",
        UNFILLED + b"(I1\n(I1073741824\nt" + OBJECTS + b"I00\n(lp0\ntb.",
        UNFILLED + b"(I1\n(I-1\nI-1\nt" + OBJECTS + b"I00\n(lp0\nI5\natb.",
        UNFILLED + b"(I1\n(S'x'\nI1073741824\nt" + OBJECTS + b"I00\n(lp0\ntb.",
        UNFILLED + b"(I1\n(I1\nt" + OBJECTS + b"I00\nS'abcdefgh'\ntb.",
    ],
    ids=["scalar", "bytes", "shape", "negative shape", "shape of strings", "no list"],
)
def test_arrays_of_python_values_are_lists_of_the_right_length(data):
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="is no complete pickle of plain data"):
            unpickled(data, "x.npy", OBJECT_ARRAYS)
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match="Cannot read .*absent.pkl: No such file"):
        read_pickle(tmp_path / "absent.pkl")
