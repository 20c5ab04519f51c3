"""Do two networks that take turns stay the same on all processes, and learn from the mean gradient?"""

import json
import subprocess
import sys

import pytest

from tests.cli.conftest import environment

SCRIPT = """
import json, sys
import lit_attn
import lightning as L
import torch
from torch import nn
from lit_attn.tasks.gradients import backward

class Turns(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False
        torch.manual_seed(1)
        self.one, self.other = nn.Linear(3, 1).double(), nn.Linear(3, 1).double()
    def configure_optimizers(self):
        return [torch.optim.SGD(net.parameters(), lr=0.5) for net in (self.one, self.other)]
    def training_step(self, batch, batch_idx):
        (x,) = batch
        for net, turn in zip((self.one, self.other), self.optimizers()):
            turn.zero_grad()
            backward(self, net(x).square().mean(), net.parameters())
            turn.step()
    def on_train_end(self):
        own = torch.cat([p.detach().flatten() for p in self.parameters()])
        everywhere = self.all_gather(own).reshape(-1, len(own))
        if self.trainer.is_global_zero:
            open("found.json", "w").write(json.dumps(everywhere.tolist()))

rows = torch.arange(24, dtype=torch.float64).reshape(8, 3).sin()
data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows), batch_size=8 // int(sys.argv[1]))
L.Trainer(accelerator="cpu", devices=int(sys.argv[1]), strategy="ddp" if sys.argv[1] == "2" else "auto", max_epochs=1,
          logger=False, enable_checkpointing=False, enable_progress_bar=False).fit(Turns(), data)
"""


@pytest.mark.slow
def test_two_processes_take_the_step_of_one(tmp_path):
    """Half the rows each: the mean of two means of four is the mean of all eight."""
    (tmp_path / "turns.py").write_text(SCRIPT)
    found = {}
    for count in ("1", "2"):
        done = subprocess.run([sys.executable, "turns.py", count], cwd=tmp_path, env=environment(),
                              capture_output=True, text=True)  # fmt: skip
        assert done.returncode == 0, done.stderr
        found[count] = json.loads((tmp_path / "found.json").read_text())
    (alone,), both = found["1"], found["2"]
    assert both[0] == both[1]
    assert both[0] == pytest.approx(alone, abs=1e-12)
