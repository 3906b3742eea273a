"""Files verified in forks of a process that has imported everything: starting costs nothing."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
from pathlib import Path
from typing import Any

from ttools.core.errors import TtoolsError
from ttools.verifier.batch.folder import no_verdict
from ttools.verifier.options import VerifyOptions
from ttools.verifier.result import Verification


class Forks:
    """An executor of this machine.

    Args:
        slots: how many files are verified at a time.
        options: of each.
    """

    def __init__(self, slots: int, options: VerifyOptions) -> None:
        from ttools.verifier.workers.warm_up import warm_up

        warm_up()
        self.slots = slots
        self._options = options
        #: By the number of a process: what it verifies, and the pipe that its result comes by.
        self._running: dict[int, tuple[Path, int]] = {}

    def submit(self, file: Path) -> None:
        reads, writes = os.pipe()
        pid = os.fork()
        if pid:
            os.close(writes)
            self._running[pid] = file, reads
            return
        status = 1
        try:
            os.close(reads)
            _verify(file, self._options, writes)
            status = 0
        finally:
            os._exit(status)

    def next(self) -> tuple[Path, Verification]:
        ready, _, _ = select.select([pipe for _, pipe in self._running.values()], [], [])
        pid = next(pid for pid, (_, pipe) in self._running.items() if pipe in ready)
        file, pipe = self._running.pop(pid)
        with os.fdopen(pipe) as stream:
            text = stream.read()
        os.waitpid(pid, 0)
        try:
            return file, Verification.of_dict(json.loads(text))
        except ValueError:
            return file, no_verdict("the process that compares has died")

    def end(self) -> None:
        """Ends what has not ended."""
        for pid, (_, pipe) in self._running.items():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            os.close(pipe)
            os.waitpid(pid, 0)
        self._running.clear()


def _verify(file: Path, options: VerifyOptions, writes: int) -> None:
    from ttools.verifier.judging.judge import Judge
    from ttools.verifier.judging.processes import Subject
    from ttools.verifier.workers.process import end_with_parent

    os.setpgid(0, 0)
    end_with_parent()
    path = file.resolve()
    subject = Subject(f"{path}:candidate", f"{path}:reference", f"{path}:inputs")
    answer: dict[str, Any]
    try:
        answer = Judge(subject, options).run().as_dict()
    except TtoolsError as error:
        answer = no_verdict(str(error)).as_dict()
    except Exception as error:  # noqa: BLE001 - of one file; the others go on
        why = f"the process that compares has failed: {type(error).__name__}: {error}"
        answer = no_verdict(why).as_dict()
    with os.fdopen(writes, "w") as stream:
        json.dump(answer, stream)
