"""How does a study run on Ray? Each run is a task that starts the ordinary command; lost workers are tried again.

Workers need the same file system and installation. A task that comes back after its worker died goes on from the run's last
checkpoint; the lock on the run folder keeps the old process, if it still lives, from writing beside the new one.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from lit_attn.errors import UserError
from lit_attn.study.local import THREAD_VARIABLES, Job, Watcher
from lit_attn.study.nursery import GRACE, die_with_parent

RETRIES = 3


def execute(words: list[str], log: str, cwd: str, variables: dict[str, str]) -> int:
    """One run, on a worker. It ends with the worker."""
    parent = os.getpid()
    with Path(log).open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "lit_attn", *words], cwd=cwd, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            env={**os.environ, **variables}, preexec_fn=lambda: die_with_parent(parent),
        )  # fmt: skip
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
            raise


class RayCluster:
    """Runs jobs on a cluster, or on one that is started here.

    Args:
        folder: Of the study.
        address: Of a cluster; without it RAY_ADDRESS, else a local one with `at_once` times `threads` cores.
        at_once: Runs at a time on a local one.
        threads: Of each run.
    """

    def __init__(self, folder: Path, address: str | None, at_once: int, threads: int) -> None:
        self.folder, self.address, self.at_once, self.threads = folder, address, at_once, threads
        self.signal: int | None = None

    def run(self, jobs: Sequence[Job], watcher: Watcher) -> int:
        """All jobs; returns 0, or 130 or 143 when it was told to stop."""
        try:
            import ray
        except ImportError as error:
            raise UserError('--launcher ray needs Ray: pip install "lit_attn[ray]".') from error
        address = self.address or os.environ.get("RAY_ADDRESS")
        try:
            if address:
                ray.init(address=address, log_to_driver=False)
            else:
                ray.init(num_cpus=self.at_once * self.threads, include_dashboard=False, log_to_driver=False)
        except (ConnectionError, ValueError) as error:
            raise UserError(f"Ray's cluster {address!r} cannot be reached: {error}.") from error
        old = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._work(ray, jobs, watcher)
        finally:
            ray.shutdown()
            for number, handler in old.items():
                signal.signal(number, handler)
        return 0 if self.signal is None else 128 + self.signal

    def _work(self, ray: Any, jobs: Sequence[Job], watcher: Watcher) -> None:
        variables = dict.fromkeys(THREAD_VARIABLES, str(self.threads)) | {"WANDB_RUN_GROUP": self.folder.name}
        if "PYTHONPATH" in os.environ:
            variables["PYTHONPATH"] = os.environ["PYTHONPATH"]
        task = ray.remote(execute).options(num_cpus=self.threads, max_retries=RETRIES)
        open_tasks: dict[Any, Job] = {}
        for job in jobs:
            reference = task.remote(job.words, str(job.log.absolute()), os.getcwd(), variables)
            open_tasks[reference] = job
            watcher.started(job)
        while open_tasks and self.signal is None:
            ready, _ = ray.wait(list(open_tasks), num_returns=1, timeout=1.0)
            for reference in ready:
                watcher.ended(open_tasks.pop(reference), self._code(ray, reference))
            watcher.tick(list(open_tasks.values())[: self.at_once])
        for reference, job in open_tasks.items():
            ray.cancel(reference, force=True)
            watcher.ended(job, -signal.SIGTERM)

    def _code(self, ray: Any, reference: Any) -> int:
        try:
            return int(ray.get(reference))
        except ray.exceptions.RayError:
            return -signal.SIGKILL

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self.signal = self.signal or number
