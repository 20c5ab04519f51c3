"""What does jsonargparse complain about? One line, and a hint from the names that would have fitted at that very place."""

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable, Sequence

import lightning as L
from jsonargparse import ArgumentError
from jsonargparse._util import import_object

from lit_attn.errors import did_you_mean

_CLASS = re.compile(r"Problem with given class_path '([\w.]+)'")
_MODULE = re.compile(r"module '([\w.]+)' has no attribute '(\w+)'")
_BARE = re.compile(r"Expected a dot import path string: (\w+)")
_KEY = re.compile(
    r"(?:[Kk]ey|[Oo]ption) [\"']([\w.]+)[\"'] is not|does not accept option [\"']([\w.]+)[\"']"
    r"|[Uu]nrecognized arguments: --([\w.]+)"
)
_OWN = (
    "run", "root", "wandb", "resume", "from_weights", "monitor", "mode", "checkpoint_every", "seed_everything", "config",
    "ckpt_path", "print_config",
)  # fmt: skip
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_SECTIONS = ("model", "data", "trainer")


def shortened(error: ArgumentError, bare_names: Sequence[str] = ()) -> str:
    """The complaint with a suggestion for what may be misspelt.

    Args:
        bare_names: Classes that may be named without their path.
    """
    text = reason(str(error))
    stop = "" if text.endswith((".", "?", "!")) else "."
    return f"{text}{stop}{_hint(text, bare_names)} See every key with --print_config or `lit-attn fit --help`."


def reason(message: str) -> str:
    """jsonargparse lists what fits none of the permitted types; the first item under `Errors:` says why."""
    key = re.search(r"Parser key \"([\w.]+)\"", message)
    _, found, listed = message.partition("Errors:")
    if not found:
        return " ".join(line.strip() for line in message.splitlines()[:2])
    lines = [line.strip() for line in listed.splitlines()]
    first = next((i for i, line in enumerate(lines) if line.startswith("- ")), 0)
    last = next((i for i in range(first + 1, len(lines)) if lines[i].startswith(("- ", "Given value"))), len(lines))
    said = " ".join(line.removeprefix("- ") for line in lines[first:last] if line)
    return f"{key[1]}: {said}" if key else said


def _hint(text: str, bare_names: Sequence[str]) -> str:
    if module := _MODULE.search(text):
        return _close(module[2], _names_in(module[1]))
    if bare := _BARE.search(text):
        return _close(bare[1], bare_names)
    wrong = _KEY.search(text)
    if wrong is None:
        return ""
    key = next(group for group in wrong.groups() if group)
    refused_by = _CLASS.findall(text[: wrong.start()])
    if refused_by:
        return _close(key.removeprefix("init_args.").partition(".")[0], _options_of(refused_by[-1]))
    section, _, rest = key.partition(".")
    if section == "trainer":
        return _close(rest.partition(".")[0], inspect.signature(L.Trainer).parameters)
    return _close(section, _SECTIONS if rest else (*_OWN, *_SECTIONS))


def _close(name: str, known: Iterable[str]) -> str:
    """Nothing for a name that is right, but at another place."""
    names = set(known)
    return "" if name in names else did_you_mean(name, sorted(names))


def _options_of(path: str) -> set[str]:
    """Parameters of a class; those of its bases, too, where it hands the rest on."""
    made = import_object(path)
    makers = [vars(one).get("__init__") for one in inspect.getmro(made)] if isinstance(made, type) else [made]
    found: set[str] = set()
    for maker in makers:
        if maker is not None:
            parameters = inspect.signature(maker).parameters.values()
            found |= {parameter.name for parameter in parameters if parameter.kind in _NAMED}
            if all(parameter.kind is not inspect.Parameter.VAR_KEYWORD for parameter in parameters):
                break
    return found - {"self"}


def _names_in(path: str) -> set[str]:
    """Modules in a package, or classes that a module defines."""
    module = importlib.import_module(path)
    inside = {found.name for found in pkgutil.iter_modules(getattr(module, "__path__", ()))}
    return inside | {name for name, found in vars(module).items() if getattr(found, "__module__", None) == path}
