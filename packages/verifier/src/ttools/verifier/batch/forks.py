"""Verifies files in forks of a process that has already imported all modules.

The forks therefore start fast.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ttools.core.errors import TtoolsError
from ttools.core.process.channel import Channel, WorkerGoneError, wait
from ttools.core.process.worker import Limits, Worker, fork_worker
from ttools.verifier.batch.folder import no_verdict
from ttools.verifier.options import VerifyOptions
from ttools.verifier.result import Verification


class Forks:
    """An executor that verifies files on this machine.

    Args:
        slots: Number of files that are verified at the same time.
        options: Options of each verification.
    """

    def __init__(self, slots: int, options: VerifyOptions) -> None:
        from ttools.verifier.workers.warm_up import warm_up

        warm_up()
        self.slots = slots
        self._options = options
        self._running: dict[Channel, tuple[Path, Worker]] = {}

    def submit(self, file: Path) -> None:
        worker = fork_worker(_verifying(file, self._options), Limits())
        self._running[worker.channel] = file, worker

    def next(self) -> tuple[Path, Verification]:
        file, worker = self._running.pop(wait(list(self._running))[0])
        try:
            return file, Verification.of_dict(worker.receive())
        except WorkerGoneError as error:
            return file, no_verdict(f"during its verification, {error}")
        finally:
            worker.end()

    def end(self) -> None:
        """End the verifications that are still running."""
        for _, worker in self._running.values():
            worker.end()
        self._running.clear()


def serve_files(channel: Channel, options: str) -> None:
    """Verify the files whose paths are received, each in a fork of this process.

    A process with threads, such as an actor of a cluster, must not fork itself; it starts a new
    process for this function.

    Args:
        options: The fields of `VerifyOptions`, as JSON.
    """
    forks = Forks(1, VerifyOptions(**json.loads(options)))
    while True:
        forks.submit(Path(channel.receive()))
        _, verification = forks.next()
        channel.send(verification.as_dict())


def _verifying(file: Path, options: VerifyOptions) -> Callable[[Channel], None]:
    def verify(channel: Channel) -> None:
        from ttools.verifier.run.processes import Subject
        from ttools.verifier.run.verification_run import VerificationRun

        path = file.resolve()
        subject = Subject(f"{path}:candidate", f"{path}:reference", f"{path}:inputs")
        answer: dict[str, Any]
        try:
            answer = VerificationRun(subject, options).run().as_dict()
        except TtoolsError as error:
            answer = no_verdict(str(error)).as_dict()
        except Exception as error:  # noqa: BLE001 - the other files are still verified
            why = (
                f"the process that compares the results has failed: {type(error).__name__}: {error}"
            )
            answer = no_verdict(why).as_dict()
        channel.send(answer)

    return verify
