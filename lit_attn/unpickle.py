"""What is inside a pickle of plain data? Reads it without running any code that the file names.

Published checkpoints and n-gram tables come as pickles of Python 2 and 3. A pickle may name any function and call it; here
it may only use the names of `PLAIN`, each of which stands for a small function of this file: a `defaultdict` or
`OrderedDict` comes back as a dict, an `argparse.Namespace` as a `SimpleNamespace`, a numpy scalar as a number or string, a
numpy array as an array of those. Strings of Python 2 are decoded as latin-1. Everything else is refused by name. With
`OBJECT_ARRAYS`, a numpy array may hold any of these values, too.

The C unpickler lets a file set attributes on whatever it can name and reserve memory that it never fills, so this one
extends the slower one in Python, and does the calling and building itself.
"""

import io
import math
import pickle
import pickletools
import re
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from lit_attn.errors import UserError

Raw = str | bytes | bytearray
_NUMBERS_AND_STRINGS = re.compile(r"[<>=|]?(b1|[iu][1248]|f[248]|c8|c16|[SU]\d+)")
_OBJECT = "O"


@dataclass
class _DType:
    """A numpy type as a file describes it: a name, then a state that tells the byte order."""

    name: str

    def build(self, state: tuple[Any, ...]) -> None:
        _version, order, *_structure = state
        if self.name != _OBJECT:
            self.name = _dtype(order + self.name.lstrip("<>=|")).name


def _dtype(name: str, *_align_and_copy: Any) -> _DType:
    if not _NUMBERS_AND_STRINGS.fullmatch(name):
        raise pickle.UnpicklingError(f"the numpy type {name!r} is neither numbers nor strings")
    return _DType(name)


def _dtype_or_objects(name: str, *_align_and_copy: Any) -> _DType:
    return _DType(_OBJECT) if name in ("O", "O4", "O8") else _dtype(name)


def _bytes(raw: Raw) -> bytes:
    if not isinstance(raw, Raw):
        raise pickle.UnpicklingError("a numpy array has values that are no bytes")
    return raw.encode("latin-1") if isinstance(raw, str) else bytes(raw)


def _array(raw: Raw, described: _DType, shape: tuple[int, ...], order: str = "C") -> NDArray[Any]:
    """As many numbers or strings as the shape says, or an error."""
    if described.name == _OBJECT:
        raise pickle.UnpicklingError("objects of a numpy array are told as bytes")
    if any(length < 0 for length in shape):
        raise pickle.UnpicklingError("a numpy array has a negative length")
    values = np.frombuffer(bytearray(_bytes(raw)), np.dtype(described.name))
    return values.reshape(shape, order="F" if order == "F" else "C")


def _scalar(described: _DType, raw: Raw) -> Any:
    return _array(raw, described, ()).item()


def _unfilled_array(*_kind_shape_type: Any) -> NDArray[Any]:
    return np.zeros(0)


def _fill(array: NDArray[Any], state: tuple[Any, ...]) -> None:
    _version, shape, described, fortran, raw = state
    if described.name == _OBJECT:
        _fill_with_objects(array, shape, bool(fortran), raw)
        return
    checked = _array(raw, described, shape, "F" if fortran else "C")
    array.__setstate__((1, shape, checked.dtype, bool(fortran), _bytes(raw)))  # type: ignore[arg-type]


def _fill_with_objects(array: NDArray[Any], shape: tuple[int, ...], fortran: bool, values: Any) -> None:
    """From a list, whose values the file has made by the same rules."""
    if not isinstance(values, list) or any(length < 0 for length in shape) or len(values) != math.prod(shape):
        raise pickle.UnpicklingError("a numpy array of objects is no list of as many values as its shape says")
    array.__setstate__((1, shape, np.dtype(object), fortran, values))  # type: ignore[arg-type]


def _object(kind: "_Named", *_base_and_state: Any) -> SimpleNamespace:
    if kind.function is not SimpleNamespace:
        raise pickle.UnpicklingError("an object of a built-in class is rebuilt")
    return SimpleNamespace()


def _encode(text: str, codec: str) -> bytes:
    if codec not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError("bytes are encoded in another way than latin-1")
    return text.encode("latin-1")


def _no_bytes() -> bytes:
    """Python 3 calls `bytes()` in old protocols; with a number in it, the call would reserve that much memory."""
    return b""


def _default_dict(*_factory: Any) -> dict[Any, Any]:
    return {}


def _ordered_dict(pairs: Iterable[tuple[Any, Any]] = ()) -> dict[Any, Any]:
    return dict(pairs)


def _set(items: Iterable[Any] = ()) -> set[Any]:
    return set(items)


def _frozenset(items: Iterable[Any] = ()) -> frozenset[Any]:
    return frozenset(items)


Allowed = Mapping[tuple[str, str], Callable[..., Any] | None]
_BUILTINS = dict.fromkeys(("object", "float", "int", "long", "list", "dict", "str", "unicode", "bool", "tuple"))

PLAIN: Allowed = MappingProxyType(
    {
        ("argparse", "Namespace"): SimpleNamespace,
        ("collections", "OrderedDict"): _ordered_dict,
        ("collections", "defaultdict"): _default_dict,
        ("_codecs", "encode"): _encode,
        ("copy_reg", "_reconstructor"): _object,
        ("copyreg", "_reconstructor"): _object,
        ("numpy", "dtype"): _dtype,
        ("numpy", "ndarray"): None,
    }
    | {
        (module, name): function
        for module in ("__builtin__", "builtins")
        for name, function in {**_BUILTINS, "set": _set, "frozenset": _frozenset, "bytes": _no_bytes}.items()
    }
    | {
        (f"numpy.{core}.{place}", name): function
        for core in ("core", "_core")
        for place, name, function in (
            ("multiarray", "scalar", _scalar),
            ("multiarray", "_reconstruct", _unfilled_array),
            ("numeric", "_frombuffer", _array),
        )
    }
)
"""Module and name of every global that a file may use, and the function that is called in its place. With None it may be
named, as the factory of a defaultdict is, but not called."""

OBJECT_ARRAYS: Allowed = MappingProxyType({**PLAIN, ("numpy", "dtype"): _dtype_or_objects})
"""The same for files that hold numpy arrays of Python values."""


@dataclass(frozen=True)
class _Named:
    """Stands for an allowed global among the values of a file."""

    name: str
    function: Callable[..., Any] | None


_REFUSED = ("INST", "OBJ", "NEWOBJ_EX", "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID", "NEXT_BUFFER", "READONLY_BUFFER")
"""Instructions that make objects in other ways than plain data needs, or point outside the file."""


def _refusing(instruction: str) -> Callable[["_Reader"], NoReturn]:
    return lambda reader: reader.refuse(f"run the instruction {instruction}")


class _Reader(pickle._Unpickler):
    """Knows no class and calls no object of the file's choice."""

    read: Callable[[int], bytes]
    stack: list[Any]
    append: Callable[[Any], None]

    def __init__(self, source: str, data: bytes, allowed: Allowed) -> None:
        super().__init__(io.BytesIO(data), encoding="latin-1")
        self.source = source
        self.allowed = allowed

    def refuse(self, what: str) -> NoReturn:
        raise UserError(f"{self.source} is refused: it wants to {what}. Only pickles of plain data are read.")

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.allowed:
            self.refuse(f"use {module}.{name}")
        return _Named(f"{module}.{name}", self.allowed[module, name])

    def _call(self) -> None:
        values = self.stack.pop()
        named = self.stack.pop()
        if not isinstance(named, _Named):
            self.refuse(f"call a value of type {type(named).__name__}")
        if named.function is None:
            self.refuse(f"call {named.name}")
        self.append(named.function(*values))

    def _build(self) -> None:
        state = self.stack.pop()
        match self.stack[-1]:
            case SimpleNamespace() as namespace:
                vars(namespace).update(state)
            case _DType() as described:
                described.build(state)
            case np.ndarray() as array:
                _fill(array, state)
            case other:
                self.refuse(f"set the state of a value of type {type(other).__name__}")

    def _read_bytearray(self) -> None:
        # The original reserves the memory before it looks whether the file is that long.
        (size,) = struct.unpack("<Q", self.read(8))
        self.append(bytearray(self.read(size)))

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **pickle._Unpickler.dispatch,
        pickle.REDUCE[0]: _call,
        pickle.NEWOBJ[0]: _call,
        pickle.BUILD[0]: _build,
        pickle.BYTEARRAY8[0]: _read_bytearray,
        **{ord(opcode.code): _refusing(opcode.name) for opcode in pickletools.opcodes if opcode.name in _REFUSED},
    }


def read_pickle(path: Path, allowed: Allowed = PLAIN) -> Any:
    """The value that a pickle of plain data holds, whatever its protocol. More names may be `{**PLAIN, …}`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from error
    return unpickled(data, str(path), allowed)


def unpickled(data: bytes, source: str, allowed: Allowed = PLAIN) -> Any:
    """The same for a pickle inside another file; `source` names it in messages."""
    try:
        return _Reader(source, data, allowed).load()
    except UserError:
        raise
    except Exception as error:  # a damaged file can fail in any way
        raise UserError(
            f"{source} is no complete pickle of plain data: {str(error) or type(error).__name__}."
        ) from error
