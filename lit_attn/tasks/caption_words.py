"""Which words belong to the weights of a model that reads captions? Kept in checkpoints, and compared."""

from typing import Any

import lightning as L

from lit_attn.errors import UserError


def keep_words(checkpoint: dict[str, Any], trainer: L.Trainer | None) -> None:
    """Puts the words of the data into a checkpoint."""
    vocabulary = _vocabulary(trainer)
    if vocabulary is not None:
        checkpoint["words"] = list(vocabulary.words)
        checkpoint["vocabulary"] = vocabulary.fingerprint


def check_words(checkpoint: dict[str, Any], trainer: L.Trainer | None) -> None:
    """Refuses data whose words have other numbers than those a checkpoint was trained with."""
    vocabulary = _vocabulary(trainer)
    if vocabulary is not None and checkpoint.get("vocabulary") not in (None, vocabulary.fingerprint):
        raise UserError(
            f"The words of the data ({len(vocabulary)}) are not those this checkpoint was trained with. "
            "Name the same data, or train anew."
        )


def _vocabulary(trainer: L.Trainer | None) -> Any:
    return getattr(getattr(trainer, "datamodule", None), "vocabulary", None)
