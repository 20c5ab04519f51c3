"""How do several processes agree on gradients when two networks take turns? Their mean, taken by hand.

Lightning's DDP expects that every backward pass reaches every parameter. A discriminator's does not reach the generator, nor
the other way round, so DDP's own exchange is held back and the gradients of the network whose turn it is are averaged.
"""

from collections.abc import Iterable

import lightning as L
import torch
from lightning.pytorch.strategies import DDPStrategy
from torch import Tensor, nn


def backward(task: L.LightningModule, loss: Tensor, parameters: Iterable[nn.Parameter]) -> None:
    """`manual_backward`; afterwards these parameters have the mean gradient of all processes."""
    strategy = task.trainer.strategy
    if task.trainer.world_size == 1 or not isinstance(strategy, DDPStrategy):
        task.manual_backward(loss)
        return
    with strategy.block_backward_sync():
        task.manual_backward(loss)
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    together = torch.cat([gradient.flatten() for gradient in gradients])
    together = strategy.reduce(together, reduce_op="mean")
    start = 0
    for gradient in gradients:
        gradient.copy_(together[start : start + gradient.numel()].view_as(gradient))
        start += gradient.numel()
