"""Do two models attend to words alike? A validation of one of ours, and a language model on the very same words and rows.

`lit-attn compare RECIPE --config probes/all --from_weights FILE --against MODEL [--align input]` validates as usual. Then MODEL
(a folder, an id of the hub or a GGUF file of `transformers`) reads every annotated text of that validation, cut where ours was
cut, and the same probes hear it. Its run is the folder `against` inside the run; a report of both is written at once.
"""

import logging
import time
from pathlib import Path
from typing import Literal

import torch
from lightning.pytorch.cli import LightningArgumentParser

from lit_attn import __version__
from lit_attn.adapters.language import LanguageModel, read_language_model
from lit_attn.callbacks.attention_files import Found
from lit_attn.callbacks.attention_probe import AttentionProbe
from lit_attn.cli import training
from lit_attn.cli.counting import counted
from lit_attn.errors import UserError
from lit_attn.probes.board import Board
from lit_attn.probes.text import text_of
from lit_attn.progress import shown
from lit_attn.report.page import write_report
from lit_attn.run.folder import RunInfo, now

log = logging.getLogger("lit_attn")
FOLDER = "against"
BATCH = 32


def run(argv: list[str]) -> int:
    return training.run("validate", argv, Comparing)


class Comparing(training.Training):
    """A validation, and a language model that reads the same texts."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        super().add_arguments_to_parser(parser)
        parser.add_argument(
            "--against",
            type=str | None,
            default=None,
            help="Language model: a folder, an id of the hub or a GGUF file.",
        )
        parser.add_argument(
            "--align",
            type=Literal["predict", "input"] | None,
            default=None,
            help="Rows of both models: of the word being produced, or just read (default: as the probes say).",
        )
        parser.add_argument(
            "--opened", type=bool, default=True, help="The language model reads its START token first, if it has one."
        )

    def _run_subcommand(self, subcommand: str) -> None:
        name = self.settings.against
        if not name:
            raise UserError(
                "lit-attn compare needs a language model: --against FOLDER, an id of the hub, or FILE.gguf."
            )
        if self.trainer.world_size > 1:
            raise UserError("lit-attn compare runs in one process. Leave --trainer.devices at 1.")
        listening = [c for c in self.trainer.callbacks if isinstance(c, AttentionProbe)]  # type: ignore[attr-defined]
        probes = [probe for callback in listening for probe in callback.probes]
        for probe in probes:
            if self.settings.align and hasattr(probe, "align"):
                probe.align = self.settings.align
        if not probes:
            raise UserError("lit-attn compare has no probe to ask. Add --config probes/all.")
        model = read_language_model(name, self.settings.opened)
        board = Board(model.net, probes)
        super()._run_subcommand(subcommand)
        self._read(model, board)
        folder = Path(self.folder) / FOLDER
        Found.of(board).write(folder / "attention", "val", 0)
        info = RunInfo(name=Path(name).stem, verb="compare", recipe=self.recipe, started=now(), version=__version__)
        info.status = "finished"
        info.write(folder)
        log.info("report: %s", write_report([Path(self.folder), folder], Path(self.folder) / "report"))

    def _read(self, model: LanguageModel, board: Board) -> None:
        """The words that our model saw, in the pieces of the other."""
        texts = [text_of(batch) for batch in self.datamodule.val_dataloader() if len(batch)]
        found = [
            (annotation, name, words)
            for text in texts
            for annotation, name, words in zip(text.annotations, text.sample_id, text.lengths, strict=True)
            if annotation is not None and words
        ]
        annotations, names, words = zip(*found, strict=True)
        board.restart(torch.device("cpu"))
        begun, batches = time.monotonic(), -(-len(found) // BATCH)
        for batch in shown(model.batches(annotations, names, BATCH, words), batches, "batches read"):
            with board.listening(batch):
                model.read(batch)
        took = time.monotonic() - begun
        log.info("%s read by the language model in %.0f s", counted(len(found), "text"), took)
