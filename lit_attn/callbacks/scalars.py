"""Where do the hundreds of numbers of a validation go? To loggers and to other callbacks, all at once.

`LightningModule.log` builds an object per number that can add up over batches, gathers it over processes and moves it between
devices, which takes a third of a millisecond. These numbers are finished, on all processes, when a validation ends.
"""

from collections.abc import Mapping

import lightning as L
import torch


def log_scalars(trainer: L.Trainer, found: Mapping[str, float]) -> None:
    """As if they were logged at the end of a validation: in `trainer.callback_metrics` and `trainer.logged_metrics`, so that a
    callback can monitor them, and in all loggers, at the step that Lightning logs this validation with."""
    numbers = {name: torch.tensor(value, dtype=torch.float64) for name, value in found.items()}
    trainer.callback_metrics.update(numbers)
    trainer.logged_metrics.update(numbers)
    step = trainer.fit_loop.epoch_loop._batches_that_stepped
    for logger in trainer.loggers if found else ():
        logger.log_metrics({**found, "epoch": trainer.current_epoch}, step)
