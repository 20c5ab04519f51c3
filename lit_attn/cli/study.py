"""What does `lit-attn study` do? Plans the grid, runs what is not finished, and writes the tables.

Exit codes: 0 all runs finished, 1 some failed, 2 bad usage, 130 and 143 told to stop. The same command goes on where it was.
"""

import argparse
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from lit_attn.cli.arguments import Parser
from lit_attn.cli.recipes import find_recipe
from lit_attn.errors import UserError
from lit_attn.study import folder as place
from lit_attn.study.grid import (
    Cell,
    Recipe,
    check_extra,
    find_recipes,
    fit_words,
    parse_alignments,
    parse_seeds,
    settings_as_flags,
)
from lit_attn.study.local import Job, Local, reason
from lit_attn.study.progress import Lines, LiveTable

LAUNCHERS = ("local", "ray", "slurm", "sweep")


def run(argv: list[str]) -> int:
    """The verb."""
    own, extra = _split(argv)
    chosen = _parser().parse_args(own)
    recipes = find_recipes(chosen.recipes, find_recipe)
    flags = check_extra([*settings_as_flags(chosen.set), *(["--wandb=true"] if chosen.wandb else []), *extra])
    alignments, seeds = parse_alignments(chosen.alignments), parse_seeds(chosen.seeds)
    name = chosen.name or "study-" + "-".join(recipe.label for recipe in recipes)
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9._ -]*", name):
        raise UserError(f"--name {name!r} cannot be a folder name. Use letters, digits, dots, dashes and underscores.")
    folder = Path(chosen.root) / name
    asked = place.described(name, recipes, alignments, seeds, flags)
    info = place.merged(place.read_study(folder), asked, folder)
    jobs = [(cell, _job(cell, recipes, folder, flags, name)) for cell in asked.cells]
    if chosen.dry_run:
        _show_plan(folder, jobs)
        return 0
    place.make_folder(folder)
    if chosen.launcher == "sweep":
        return _write_sweeps(folder, info, recipes, flags)
    held = place.lock(folder, _say)
    place.write_study(folder, info)
    os.environ["WANDB_RUN_GROUP"] = name
    code = 0
    if not chosen.collect:
        code = _launch(chosen, folder, held, jobs)
    return _tell(folder, info, code, chosen)


def _split(argv: list[str]) -> tuple[list[str], list[str]]:
    """Our words, and what follows `--`."""
    if "--" not in argv:
        return argv, []
    at = argv.index("--")
    return argv[:at], argv[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="lit-attn study",
        description="The grid of runs: recipes by alignments by seeds. Flags after -- go to every run.",
    )
    parser.add_argument(
        "recipes", nargs="+", metavar="RECIPE", help="shipped name or YAML file; several make one table"
    )
    parser.add_argument("--alignments", default="all", help="all, or names with commas between them")
    parser.add_argument("--seeds", default="0,1,2", help="such as 0,1,2 or 0-4")
    parser.add_argument("--name", help="of the study's folder (default: study- and the recipes)")
    parser.add_argument("--root", default="checkpoints", help="folder of the study's folder")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="for every run; repeatable")
    parser.add_argument("--launcher", choices=LAUNCHERS, default="local", help="sweep writes W&B sweep files")
    parser.add_argument("--jobs", type=_positive, default=None, help="runs at a time (default: one per core)")
    parser.add_argument("--threads", type=_positive, default=1, help="of each run")
    parser.add_argument("--fresh", action="store_true", help="a new process for every run, instead of a fork")
    parser.add_argument("--wandb", action="store_true", help="log runs and table to W&B, grouped by the study")
    parser.add_argument("--slurm", default="", metavar="OPTIONS", help='for sbatch, such as "--time=1:00:00 --mem=8G"')
    parser.add_argument("--ray-address", default=None, help="of a cluster (default: RAY_ADDRESS, else one is started)")
    parser.add_argument("--dry-run", action="store_true", help="show the commands and do nothing")
    parser.add_argument("--collect", action="store_true", help="run nothing; write the tables of what is finished")
    parser.add_argument("--no-page", action="store_true", help="tables and figures only, no HTML page")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no positive whole number")
    return int(text)


def _job(cell: Cell, recipes: Sequence[Recipe], folder: Path, flags: Sequence[str], study: str) -> Job:
    recipe = next(recipe for recipe in recipes if recipe.label == cell.recipe)
    return Job(cell.name, fit_words(cell, recipe, folder, flags), folder / "logs" / f"{cell.name}.log")


def _show_plan(folder: Path, jobs: Sequence[tuple[Cell, Job]]) -> None:
    for cell, job in jobs:
        _say(f"{place.state_of(folder, cell):5}  lit-attn {shlex.join(job.words)}")


def _launch(chosen: argparse.Namespace, folder: Path, held: int, jobs: Sequence[tuple[Cell, Job]]) -> int:
    pending = [job for cell, job in jobs if place.state_of(folder, cell) != "done"]
    finished = len(jobs) - len(pending)
    _say(f"study: {folder}, {len(jobs)} runs, {finished} finished, {len(pending)} to do")
    if not pending:
        return 0
    if chosen.launcher == "slurm":
        from lit_attn.study.slurm import submit

        _say(submit(folder, pending, chosen.slurm, chosen.threads, chosen.jobs))
        return 0
    terminal = sys.stdout.isatty()
    watcher = LiveTable(len(jobs), finished) if terminal else Lines(len(jobs), finished)
    at_once = chosen.jobs or max(1, (os.cpu_count() or 1) // chosen.threads)
    try:
        if chosen.launcher == "ray":
            from lit_attn.study.ray_cluster import RayCluster

            return RayCluster(folder, chosen.ray_address, at_once, chosen.threads).run(pending, watcher)
        return Local(folder, held, at_once, chosen.threads, fork=not chosen.fresh).run(pending, watcher)
    finally:
        if isinstance(watcher, LiveTable):
            watcher.close()


def _write_sweeps(folder: Path, info: place.StudyInfo, recipes: Sequence[Recipe], flags: Sequence[str]) -> int:
    from lit_attn.study.sweep import write_sweeps

    place.write_study(folder, info)
    for path in write_sweeps(folder, info, recipes, flags):
        _say(f"sweep: {path}; start it with `wandb sweep {path}` and `wandb agent`, then --collect")
    return 0


def _tell(folder: Path, info: place.StudyInfo, code: int, chosen: argparse.Namespace) -> int:
    """Write the tables, list what is missing, and choose the exit code."""
    from lit_attn.report.study_report import write_study_report

    states = {cell: place.state_of(folder, cell) for cell in info.cells}
    missing = [cell for cell, state in states.items() if state != "done"]
    if len(missing) < len(states):
        for path in write_study_report(folder, page=not chosen.no_page):
            _say(f"wrote {path}")
        if chosen.wandb:
            from lit_attn.run.wandb_study import log_study

            log_study(folder, info.name)
    elif code == 0 and chosen.launcher != "slurm":
        _say("No run has finished: there is nothing to put into a table.")
    if code in (130, 143):
        _say(f"stopped; {len(missing)} of {len(states)} runs are not finished. The same command goes on.")
        return code
    if chosen.launcher == "slurm" and not chosen.collect:
        return 0
    for cell in missing:
        log = folder / "logs" / f"{cell.name}.log"
        said = f"{reason(log)} (log: {log})" if log.exists() else "not started"
        _say(f"not finished: {cell.name}: {said}")
    return 1 if missing else code


def nursery(argv: list[str], main: Callable[[Sequence[str]], int]) -> int:
    """The process that starts runs; see lit_attn.study.nursery."""
    from lit_attn.study.nursery import Nursery, single_thread

    folder, mode = Path(argv[0]), argv[1]
    if mode == "fork":
        import lit_attn.cli.training  # noqa: F401 - what every run would import
    return Nursery(main, folder, fork=mode == "fork" and single_thread()).serve()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
