"""How do fit, validate, test and predict run? LightningCLI, with run folders, honest resumes and short errors.

Differences from LightningCLI: recipes have names; a run lives in one folder; checkpoint hyperparameters never override
flags silently (a contradiction stops the command); `--resume auto`, `--from_weights` and `--wandb` exist.
"""

import logging
import os
import sys
import warnings
from pathlib import Path
from typing import Any, Literal

import lightning as L
import yaml
from jsonargparse import ArgumentError
from jsonargparse._util import import_object
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from lightning.pytorch.trainer.states import TrainerStatus

from lit_attn import __version__
from lit_attn.callbacks.answer_pictures import AnswerPictures
from lit_attn.callbacks.caption_pictures import CaptionPictures
from lit_attn.callbacks.paintings import PaintingPictures
from lit_attn.checkpoint import read_weights, take_over
from lit_attn.cli.complaints import reason, shortened
from lit_attn.cli.progress import PlainProgress, print_scores
from lit_attn.cli.recipes import find_recipe
from lit_attn.data.agreement_grammar import AgreementGrammar
from lit_attn.data.attngan_folder import AttnGanFolder
from lit_attn.data.captioning import CaptioningData
from lit_attn.data.clevr import Clevr
from lit_attn.data.karpathy import KarpathyCaptions
from lit_attn.data.labelled_sentences import SentenceData
from lit_attn.data.linzen import Linzen
from lit_attn.data.precomp import PrecompMatching
from lit_attn.data.questions import QuestionData
from lit_attn.data.reading import ReadingData
from lit_attn.data.region_folder import RegionFolder
from lit_attn.data.scenes.asking import ScenesQuestions
from lit_attn.data.scenes.captioning import ScenesCaptions, ScenesParagraphs
from lit_attn.data.scenes.matching import ScenesMatching
from lit_attn.data.scenes.painting import ScenesPictures
from lit_attn.data.scenes.reading_data import ScenesReading
from lit_attn.data.sst2 import Sst2
from lit_attn.data.synthesis import SynthesisData
from lit_attn.data.tell_me_more import TellMeMore
from lit_attn.data.textvqa import OwnQuestions, TextVqa
from lit_attn.errors import UserError
from lit_attn.files import write_text
from lit_attn.report.page import write_report
from lit_attn.run.checkpoint_io import SafeCheckpointIO, load_checkpoint
from lit_attn.run.checkpoints import Checkpoints
from lit_attn.run.claim import claim, cleared, left_without_checkpoint, released
from lit_attn.run.folder import BEST, LAST, RunInfo, default_name, latest_run, new_folder, now, stem
from lit_attn.run.guard import check_hyperparameters, check_same
from lit_attn.run.metrics_csv import KeepMetrics, MetricsCsv
from lit_attn.run.precision import BatchDoublePrecision
from lit_attn.run.record import RunRecord
from lit_attn.run.rng import RandomState
from lit_attn.run.wandb_logger import ID_FILE, KeepWandbId, SafeWandbLogger
from lit_attn.tasks.agreement import Agreement
from lit_attn.tasks.answering import Answering
from lit_attn.tasks.captioning import Captioning
from lit_attn.tasks.classifying import Classifying
from lit_attn.tasks.damsm import DamsmTraining
from lit_attn.tasks.matching import Matching
from lit_attn.tasks.reading import Reading
from lit_attn.tasks.sentiment import Sentiment
from lit_attn.tasks.synthesis import Synthesis

log = logging.getLogger("lit_attn")

SIZES_OF_DATA = ("vocab_size", "region_dim", "grid_dim", "num_answers", "word_vector_dim", "max_steps")
"""What a model takes from the data rather than from a recipe, where it has such a setting."""
FOLDER_VARIABLE = "LIT_ATTN_RUN_FOLDER"
"""Tells the processes that Lightning starts for DDP which folder the first one chose."""


def run(verb: str, argv: list[str], kind: "type[Training] | None" = None) -> int:
    """Run one training verb and return its exit code."""
    kind = kind or Training
    _quiet()
    if os.getcwd() not in sys.path:  # a user's own alignment, probe or data module often lies beside the command
        sys.path.append(os.getcwd())
    arguments, recipe = _expand(argv)
    arguments = _model_of_weights(verb, arguments)
    try:
        kind.recipe = recipe
        cli = kind(verb, arguments)
    except ArgumentError as error:
        raise UserError(shortened(error, [shipped.__name__ for shipped in SHIPPED])) from error
    return cli.code


def _quiet() -> None:
    """Our lines, not the greetings of libraries."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    for name in ("lightning.pytorch", "lightning.fabric", "lightning"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module=r"lightning\..*")
    warnings.filterwarnings(
        "ignore",
        message=r".*(LightningCLI's args parameter|num_workers|LeafSpec|does not have many workers|litlogger"
        r"|was called before the ``update`` method).*",
    )


def _expand(argv: list[str]) -> tuple[list[str], str | None]:
    """Recipe names become --config files; a bare --wandb becomes true. Returns the recipe's name, too."""
    words, recipe = list(argv), None
    if words and not words[0].startswith("-"):
        words = ["--config", words[0], *words[1:]]
    found: list[str] = []
    for i, word in enumerate(words):
        name, _, value = word.partition("=")
        if name in ("-c", "--config") and value:
            value = str(find_recipe(value))
            recipe = recipe or Path(value).stem
            found.append(f"--config={value}")
        elif i and words[i - 1] in ("-c", "--config"):
            path = find_recipe(word)
            recipe = recipe or path.stem
            found.append(str(path))
        elif word == "--wandb" and (i + 1 == len(words) or words[i + 1].startswith("-")):
            found.append("--wandb=true")
        else:
            found.append(word)
    return found, recipe


def _model_of_weights(verb: str, words: list[str]) -> list[str]:
    """Without a recipe or a model, `--from_weights` brings the model: its class and settings stand in the file."""
    named = any(word.partition("=")[0] in ("-c", "--config", "--model") for word in words)
    source = next(
        (_value(words, i) for i, word in enumerate(words) if word.partition("=")[0] == "--from_weights"), None
    )
    if named or source is None or verb == "fit":
        return words
    weights = read_weights(Path(source))
    if weights.task is None:
        raise UserError(f"{source} does not say which model it is for. Name a recipe: lit-attn {verb} RECIPE …")
    settings = {k: v for k, v in weights.hyperparameters.items() if k not in SIZES_OF_DATA}
    model = {"model": {"class_path": weights.task, "init_args": settings}}
    return ["--config", yaml.safe_dump(model), *words]


def _value(words: list[str], i: int) -> str | None:
    """The value of an option: after its equals sign, or the next word."""
    _, equals, value = words[i].partition("=")
    return value if equals else words[i + 1] if i + 1 < len(words) else None


SHIPPED = (
    Matching, Captioning, PrecompMatching, ScenesMatching, ScenesCaptions, ScenesParagraphs, KarpathyCaptions, TellMeMore,
    RegionFolder, Answering, Reading, ScenesQuestions, ScenesReading, Clevr, TextVqa, OwnQuestions, Synthesis, DamsmTraining,
    Classifying, ScenesPictures, AttnGanFolder, Agreement, Linzen, AgreementGrammar,
    Sentiment, Sst2,
)  # fmt: skip
"""Tasks and data sets that may be named without their path, because they are imported here."""


WORDED = (CaptioningData, QuestionData, ReadingData, SynthesisData, SentenceData)
"""Data sets whose models keep words, and perhaps answers, with their weights."""


def _class_of(configured: Any) -> type:
    """The class that a part of the configuration names."""
    found = import_object(configured["class_path"])
    assert isinstance(found, type)
    return found


class Training(LightningCLI):
    """One command, from flags to exit code."""

    recipe: str | None = None
    """Name of the first --config; part of the default name of a run."""

    def __init__(self, verb: str, arguments: list[str]) -> None:
        self.verb = verb
        self.code = 0
        self.resumed = False
        self._held: int | None = None
        try:
            super().__init__(
                L.LightningModule,
                L.LightningDataModule,
                subclass_mode_model=True,
                subclass_mode_data=True,
                save_config_callback=None,
                auto_configure_optimizers=False,
                load_from_checkpoint_support=False,
                seed_everything_default=0,
                trainer_defaults={"num_sanity_val_steps": 0, "use_distributed_sampler": False, "logger": False},
                parser_kwargs={"exit_on_error": False, **{v: {"exit_on_error": False} for v in self.subcommands()}},
                args=[verb, *arguments],
            )
        finally:
            if self._held is not None:
                released(self._held)

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument(
            "--run", type=str | None, default=None, help="Name of the run (default: recipe, alignment, seed, time)."
        )
        parser.add_argument("--root", type=str, default="checkpoints", help="Folder of all runs.")
        parser.add_argument("--wandb", type=bool, default=False, help="Log to W&B, too; offline without credentials.")
        parser.add_argument(
            "--resume", type=Literal["auto", "never"], default="never", help="auto: go on with the run if it exists."
        )
        parser.add_argument(
            "--from_weights",
            type=str | None,
            default=None,
            help="Start from the weights of this .ckpt or .safetensors.",
        )
        parser.add_argument("--monitor", type=str | None, default=None, help="Metric that chooses best.ckpt.")
        parser.add_argument(
            "--mode", type=Literal["max", "min"], default="max", help="Whether a larger monitor is better."
        )
        parser.add_argument("--checkpoint_every", type=int, default=200, help="Steps between writes of last.ckpt.")
        for size in SIZES_OF_DATA:
            parser.link_arguments(f"data.{size}", f"model.init_args.{size}", apply_on="instantiate")

    # Flags and folders, before anything is built.

    @property
    def settings(self) -> Any:
        return self.config[self.verb]

    def _parse_ckpt_path(self) -> None:
        """LightningCLI would let a checkpoint override flags here. We find the run folder instead."""
        settings = self.settings
        self.alignment = settings.get("model.init_args.alignment")
        self.seed = settings.get("seed_everything")
        if "verbose" in settings:  # our own table of scores comes at the end
            settings["verbose"] = False
        root = Path(settings.root)
        checkpoint = self._wanted_checkpoint(root)
        settings["ckpt_path"] = None if checkpoint is None else str(checkpoint)
        if checkpoint is not None:
            self._check_against(checkpoint)
        source = settings.get("from_weights")
        self._take_words_from(checkpoint or (Path(source) if source else None))
        if FOLDER_VARIABLE in os.environ and "LOCAL_RANK" in os.environ:
            self.folder = Path(os.environ[FOLDER_VARIABLE])
        elif self.resumed and checkpoint is not None:
            self.folder = checkpoint.parent
        elif self._begins_again(root):
            self.folder = root / settings.run
        else:
            name = settings.run or default_name(self.recipe, self.alignment, self.seed)
            self.folder = new_folder(root, name if self.verb == "fit" or settings.run else f"{self.verb}-{name}")
            if settings.run and self.folder.name != settings.run:
                log.info("A run %r exists already; this one is %s.", settings.run, self.folder)
        if self.verb == "fit" and "LOCAL_RANK" not in os.environ:
            self._claim()
        os.environ[FOLDER_VARIABLE] = str(self.folder)

    def _begins_again(self, root: Path) -> bool:
        """Whether `--resume auto` names a run that was ended before its first checkpoint."""
        settings = self.settings
        automatic = self.verb == "fit" and settings.resume == "auto" and bool(settings.run)
        return automatic and left_without_checkpoint(root / settings.run)

    def _claim(self) -> None:
        """No other process writes to the folder while this one trains, or has begun to by now."""
        self._held = claim(self.folder)
        if not self.resumed and left_without_checkpoint(self.folder):
            cleared(self.folder)

    def _wanted_checkpoint(self, root: Path) -> Path | None:
        """The file to load, if any; says whether this is a resume."""
        settings = self.settings
        asked = settings.get("ckpt_path")
        if settings.get("from_weights") and (asked or settings.resume == "auto"):
            raise UserError("--from_weights starts a new run; it cannot be combined with --ckpt_path or --resume auto.")
        if asked not in (None, "last", "best"):
            path = Path(asked)
            self.resumed = self.verb == "fit"
            load_checkpoint(path)
            return path.absolute()
        automatic = self.verb == "fit" and settings.resume == "auto"
        if asked is None and not automatic:
            return None
        prefix = stem(self.recipe, self.alignment, self.seed)
        folder = root / settings.run if settings.run else latest_run(root, prefix)
        found = None if folder is None else folder / (BEST if asked == "best" else LAST)
        if found is None or not found.exists():
            if automatic:
                return None
            raise UserError(
                f"There is no {asked} checkpoint of {settings.run or prefix + '-…'} in {root}/. "
                "Name the run with --run, or the file with --ckpt_path."
            )
        self.resumed = self.verb == "fit"
        return found.absolute()

    def _check_against(self, path: Path) -> None:
        """No flag is ignored: a resume must repeat the run's settings, an evaluation the model's."""
        checkpoint = load_checkpoint(path)
        dumped = self._dumped()
        if self.resumed and "config" in checkpoint:
            check_same(yaml.safe_load(checkpoint["config"]), dumped)
        else:
            self._check_network(checkpoint.get("hyper_parameters", {}), dumped)

    def _check_network(self, trained: dict[str, Any], dumped: dict[str, Any]) -> None:
        model = dumped.get("model", {})
        free = getattr(_class_of(model), "free_in_evaluation", ())
        check_hyperparameters(trained, model.get("init_args", {}), free)

    def _take_words_from(self, weights: Path | None) -> None:
        """Data use the words and answers of the weights that the command names, unless it names others."""
        data = self.settings.get("data")
        if weights is None or data is None or not issubclass(_class_of(data), WORDED):
            return
        for name in ("vocabulary", "answer_words"):
            if name in data.init_args and data.init_args[name] is None:
                data.init_args[name] = str(weights)

    def _dumped(self) -> dict[str, Any]:
        text = self._parser(self.verb).dump(
            self.settings, skip_link_targets=True, skip_none=False, skip_validation=True
        )
        return yaml.safe_load(text)

    # Building.

    def instantiate_classes(self) -> None:
        try:
            super().instantiate_classes()
        except (TypeError, ValueError) as error:
            if isinstance(error, UserError):
                raise
            raise UserError(reason(str(error))) from error

    def instantiate_trainer(self, **kwargs: Any) -> L.Trainer:
        settings = self.settings
        config = yaml.safe_dump(self._dumped(), sort_keys=False)
        info = RunInfo(
            name=self.folder.name, verb=self.verb, recipe=self.recipe, alignment=self.alignment, seed=self.seed,
            started=now(), version=__version__, monitor=settings.monitor, mode=settings.mode,
        )  # fmt: skip
        metrics = MetricsCsv(self.folder)
        callbacks: list[L.Callback] = [RunRecord(self.folder, info, config)]
        loggers: list[Any] = [metrics]
        if self.verb == "fit":
            callbacks += [
                RandomState(),
                KeepMetrics(metrics),
                Checkpoints(self.folder, settings.monitor, settings.mode, settings.checkpoint_every),
            ]
        self.wandb: SafeWandbLogger | None = None
        if settings.wandb:
            self._restore_wandb_id()
            self.wandb = SafeWandbLogger(
                self.folder, self.folder.name, yaml.safe_load(config) | {"alignment": self.alignment}
            )
            loggers.append(self.wandb)
            callbacks.append(KeepWandbId(self.wandb))
        if self.verb == "predict":
            callbacks += self._pictures()
        terminal = sys.stdout.isatty()
        if not terminal:
            callbacks.append(PlainProgress(settings.monitor))
            kwargs["enable_progress_bar"] = False
        plugins: list[Any] = [SafeCheckpointIO()]
        trainer = self._get(self.config_init, "trainer", default={})
        if str(trainer.get("precision")) in ("64-true", "64"):
            plugins.append(BatchDoublePrecision())
            kwargs["precision"] = None
        kwargs |= {
            "default_root_dir": str(self.folder),
            "logger": loggers,
            "callbacks": [*(trainer.get("callbacks") or []), *callbacks],
            "plugins": plugins,
            "enable_model_summary": False,
        }
        write_text(self.folder / "config.yaml", config)
        return super().instantiate_trainer(**kwargs)

    def _pictures(self) -> list[L.Callback]:
        """What draws the predictions of this model, unless the recipe itself lists it."""
        drawn_by: dict[type[Any], type[L.Callback]] = {
            Captioning: CaptionPictures,
            Answering: AnswerPictures,
            Reading: AnswerPictures,
            Synthesis: PaintingPictures,
        }
        listed = self._get(self.config_init, "trainer", default={}).get("callbacks") or []
        model = _class_of(self.settings.model)
        kinds = [kind for task, kind in drawn_by.items() if issubclass(model, task)]
        return [kind() for kind in kinds if not any(isinstance(callback, kind) for callback in listed)]

    def _restore_wandb_id(self) -> None:
        """A run folder without its id file may still have it in the checkpoint."""
        if self.resumed and not (self.folder / ID_FILE).exists():
            known = load_checkpoint(Path(self.settings.ckpt_path)).get("wandb_id")
            if known:
                (self.folder / ID_FILE).write_text(known)

    def after_instantiate_classes(self) -> None:
        if isinstance(self.trainer.precision_plugin, BatchDoublePrecision):
            self.model.double()  # Lightning would load a checkpoint first, into float32
        source = self.settings.get("from_weights")
        if not source:
            return
        weights = read_weights(Path(source))
        if self.verb != "fit":
            self._check_network(weights.hyperparameters, self._dumped())
        known = getattr(self.datamodule, "vocabulary", None)
        if known is not None and weights.vocabulary not in (None, known.fingerprint):
            raise UserError(
                f"{source} was trained with another vocabulary than the data's ({len(known)} words). "
                "Pass the original vocabulary, or train anew."
            )
        answers = getattr(self.datamodule, "answers", None)
        if answers is not None and weights.answers not in (None, answers):
            raise UserError(
                f"{source} was trained with other answers than the data's ({len(answers)}), {len(weights.answers)} of them. "
                "Name these weights as their source, or train anew."
            )
        found = take_over(weights, self.model, strict=self.verb != "fit", scoring=self.verb != "predict")
        if self.verb == "fit":
            log.info("From %s: %s.", source, found)

    # Running.

    def _run_subcommand(self, subcommand: str) -> None:
        log.info("run: %s", self.folder)
        if self.wandb is not None:
            self.wandb.start()
            if self.wandb.broken:
                self.trainer.loggers = [logger for logger in self.trainer.loggers if logger is not self.wandb]
        try:
            super()._run_subcommand(subcommand)
            if self.trainer.is_global_zero and self.trainer.callback_metrics:
                self.show_scores()
                if self.wandb is not None and subcommand != "predict":
                    self.wandb.log_report(lambda: write_report([self.folder], figures=False).parent)
        except SystemExit as leave:
            self.code = self._code_of(leave)
        finally:
            if self.wandb is not None:
                self.wandb.close(self.code)

    def show_scores(self) -> None:
        print_scores(str(self.folder), self.trainer.callback_metrics)

    def _code_of(self, leave: SystemExit) -> int:
        """Lightning leaves with 1 on Ctrl-C; the shell expects 130."""
        interrupted = self.trainer.state.status == TrainerStatus.INTERRUPTED
        code = leave.code if isinstance(leave.code, int) else 1
        return 130 if code == 1 and interrupted else code
