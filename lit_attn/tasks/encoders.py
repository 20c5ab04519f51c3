"""Where do AttnGAN's encoders come from? From DAMSM's training, and they must be the same in kind, width and words."""

import logging
from collections.abc import Sequence
from pathlib import Path

import lightning as L

from lit_attn.checkpoint import read_weights
from lit_attn.errors import UserError
from lit_attn.tasks.feature_networks import shipped

log = logging.getLogger(__name__)

ENCODERS = ("text.", "image.")
SCENES, SCENES_FILE = "scenes", "damsm_scenes.safetensors"
SAME = {"word_dim": "word_dim", "dim": "text_dim", "text_dim": "text_dim", "encoder": "encoder"}
"""Settings of the weights, and what they are called in AttnGAN."""


def take_encoders(task: L.LightningModule, source: str | None, parts: Sequence[str] = ENCODERS) -> None:
    """Copies encoders into `task.text` and `task.image`: out of a file, or with `scenes` the shipped ones."""
    if source is None:
        log.warning(
            "The encoders of captions and pictures are random: nothing can be learned from captions. Train them with "
            "lit-attn fit damsm_scenes (or damsm_cub, damsm_coco), and name the weights with --model.damsm."
        )
        return
    weights = read_weights(shipped(SCENES_FILE) if source == SCENES else Path(source))
    _check(task, source, weights.hyperparameters, weights.vocabulary)
    tensors = {name.removeprefix("net."): tensor for name, tensor in weights.tensors.items()}
    for part in parts:
        own = {name.removeprefix(part): t for name, t in tensors.items() if name.startswith(part)}
        encoder = part.removesuffix(".")
        if not own:
            raise UserError(
                f"{source} holds no encoder of {'captions' if encoder == 'text' else 'pictures'}: is it DAMSM's?"
            )
        try:
            task.get_submodule(encoder).load_state_dict(own)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1].strip()
            raise UserError(f"The {encoder} encoder in {source} does not fit: {reason}") from error


def _check(task: L.LightningModule, source: str, trained: dict[str, object], vocabulary: str | None) -> None:
    for theirs, ours in SAME.items():
        if theirs in trained and trained[theirs] != task.hparams[ours]:
            raise UserError(
                f"{source} was trained with {theirs}={trained[theirs]}, but model.{ours} is {task.hparams[ours]}: "
                f"set --model.{ours} {trained[theirs]}."
            )
    known = getattr(getattr(task._trainer, "datamodule", None), "vocabulary", None)
    if known is not None and vocabulary not in (None, known.fingerprint):
        raise UserError(
            f"{source} was trained with other words than the data's ({len(known)}): train DAMSM on the same data."
        )
