"""How does a study run under SLURM? As one array job: a task per run, each the ordinary command with `--resume auto`."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from lit_attn.errors import UserError
from lit_attn.files import write_text
from lit_attn.study.local import THREAD_VARIABLES, Job


def script(folder: Path, jobs: Sequence[Job], options: str, threads: int, at_once: int | None) -> str:
    """The text of the array job. A task that SLURM requeues goes on from its last checkpoint."""
    most = f"%{at_once}" if at_once else ""
    lines = [
        "#!/bin/bash",
        f"#SBATCH --job-name={folder.name}",
        f"#SBATCH --array=0-{len(jobs) - 1}{most}",
        f"#SBATCH --cpus-per-task={threads}",
        f"#SBATCH --output={shlex.quote(str(folder.absolute() / 'logs' / 'slurm-%A_%a.out'))}",
        "#SBATCH --requeue",
        *(f"#SBATCH {option}" for option in shlex.split(options)),
        f"cd {shlex.quote(os.getcwd())}",
        *(f"export {name}={threads}" for name in THREAD_VARIABLES),
        f"export WANDB_RUN_GROUP={shlex.quote(folder.name)}",
        'case "$SLURM_ARRAY_TASK_ID" in',
    ]
    for number, job in enumerate(jobs):
        command = shlex.join([sys.executable, "-m", "lit_attn", *job.words])
        lines.append(f"{number}) exec {command} >> {shlex.quote(str(job.log.absolute()))} 2>&1 ;;")
    return "\n".join([*lines, "esac"]) + "\n"


def submit(folder: Path, jobs: Sequence[Job], options: str, threads: int, at_once: int | None) -> str:
    """Writes `slurm.sh`, submits it, and says what comes next."""
    path = folder / "slurm.sh"
    write_text(path, script(folder, jobs, options, threads, at_once))
    if shutil.which("sbatch") is None:
        raise UserError(f"There is no `sbatch` here. The job is written: submit {path} where SLURM is, then --collect.")
    done = subprocess.run(["sbatch", "--parsable", str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UserError(f"sbatch refused {path}: {done.stderr.strip() or done.stdout.strip()}. Change --slurm.")
    return f"submitted {len(jobs)} runs as job {done.stdout.strip()}; when they are done, repeat the command with --collect"
