"""Would a resume change or ignore a flag? Then it must not begin. Compares two configurations; needs no torch."""

from collections.abc import Collection
from typing import Any

from lit_attn.errors import UserError

MAY_CHANGE = frozenset(
    {
        "ckpt_path", "config", "resume", "run", "root", "wandb", "from_weights", "weights_only", "checkpoint_every",
        "data.init_args.num_workers", "data.init_args.vocabulary", "data.init_args.answer_words",
        "trainer.max_epochs", "trainer.min_epochs", "trainer.max_steps", "trainer.min_steps",
        "trainer.max_time", "trainer.enable_progress_bar", "trainer.enable_model_summary", "trainer.log_every_n_steps",
        "trainer.callbacks", "trainer.logger", "trainer.profiler", "trainer.accelerator", "trainer.default_root_dir",
    }
)  # fmt: skip
"""Settings that a resumed run follows without contradicting its past. Any other must be what it was."""


def flatten(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` as `{"a.b": 1}`, down to what may change as a whole."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and value and name not in MAY_CHANGE:
            flat |= flatten(value, f"{name}.")
        else:
            flat[name] = value
    return flat


def check_same(saved: dict[str, Any], asked: dict[str, Any]) -> None:
    """Refuse a resume under other settings, naming each with both values."""
    old, new = flatten(saved), flatten(asked)
    changed = [
        name for name in sorted(old.keys() | new.keys()) if name not in MAY_CHANGE and old.get(name) != new.get(name)
    ]
    if changed:
        lines = [f"  --{flag(n)}: the run has {old.get(n)!r}, the command says {new.get(n)!r}" for n in changed]
        raise UserError(
            "A resumed run keeps its settings, but these differ:\n"
            + "\n".join(lines)
            + "\nLeave them as they were; or start a new run from these weights with --from_weights."
        )


def check_hyperparameters(trained: dict[str, Any], asked: dict[str, Any], free: Collection[str] = ()) -> None:
    """Refuse to evaluate a network that is not the one that was trained. `free` settings do not make the network."""
    changed = [n for n, value in trained.items() if n in asked and asked[n] != value and n not in free]
    if changed:
        lines = [f"  --model.{n}: trained with {trained[n]!r}, the command says {asked[n]!r}" for n in changed]
        fix = " ".join(f"--model.{n} {trained[n]}" for n in changed)
        raise UserError(
            "The checkpoint was trained with other settings:\n" + "\n".join(lines) + f"\nAdd {fix} to the command."
        )


def flag(name: str) -> str:
    return name.replace(".init_args.", ".")
