"""What do probes cost? Validation with all cheap probes on, against the same validation without. Target: 1.25 at most."""

import statistics
import tempfile
import time

import lightning as L
import torch

from lit_attn.callbacks.attention_probe import AttentionProbe
from lit_attn.data.scenes.matching import ScenesMatching
from lit_attn.probes.concentration import Concentration
from lit_attn.probes.grounding import Grounding
from lit_attn.tasks.matching import Matching

ROUNDS = 5


def main() -> None:
    torch.manual_seed(0)
    data = ScenesMatching(val_scenes=211, oracle=False)
    task = Matching(data.vocab_size, data.region_dim, alignment="dot", dim=256, word_dim=128)

    def validate(probed: bool) -> float:
        callbacks = [AttentionProbe([Concentration(), Grounding()])] if probed else []
        trainer = L.Trainer(
            accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, callbacks=callbacks, default_root_dir=tempfile.mkdtemp(),
        )  # fmt: skip
        start = time.perf_counter()
        trainer.validate(task, datamodule=data, verbose=False)
        return time.perf_counter() - start

    validate(True)
    pairs = [(validate(True), validate(False)) for _ in range(ROUNDS)]
    ratio = statistics.median(with_probes / without for with_probes, without in pairs)
    print(f"validation with probes: {ratio:.2f}x the time without")


if __name__ == "__main__":
    main()
