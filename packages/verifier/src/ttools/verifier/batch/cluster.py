"""Verifies files on a Ray cluster.

Each slot has an actor, which starts a process that forks for each file. The extra
`ttools-verifier[ray]` must be installed, and ttools must be installed on each machine.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ttools.core.process.channel import WorkerGoneError
from ttools.core.process.ray_cluster import connect
from ttools.core.process.worker import Limits, Worker, spawn_worker
from ttools.verifier.batch.folder import is_case, no_verdict
from ttools.verifier.options import VerifyOptions
from ttools.verifier.result import Verification


class Cluster:
    """An executor that verifies files on many machines.

    The files in the folder that are not cases are sent to each actor, because cases may import
    them. If a machine fails while it verifies a file, the file is verified once more.

    Args:
        slots: Number of files that are verified at the same time.
        options: Options of each verification.
        folder: Folder that contains the files.
        address: Address of the cluster, as for `ray.init`; None starts a cluster on this machine.

    Raises:
        UsageError: Ray is not installed, or there is no such cluster.
    """

    def __init__(
        self, slots: int, options: VerifyOptions, folder: Path, address: str | None = None
    ) -> None:
        self._ray, self._disconnect = connect(address, extra="ttools-verifier[ray]")
        self.slots = slots
        neighbours = {f.name: f.read_text("utf-8") for f in folder.glob("*.py") if not is_case(f)}
        host = self._ray.remote(num_cpus=1, max_restarts=-1)(_Host)
        self._actors = [host.remote(asdict(options), neighbours) for _ in range(slots)]
        self._idle = list(self._actors)
        #: Maps each pending result to its file, its actor, and whether this is the second attempt.
        self._running: dict[Any, tuple[Path, Any, bool]] = {}

    def submit(self, file: Path) -> None:
        self._ask(self._idle.pop(), file, again=False)

    def next(self) -> tuple[Path, Verification]:
        while True:
            (ready,), _ = self._ray.wait(list(self._running), num_returns=1)
            file, actor, again = self._running.pop(ready)
            try:
                verification = Verification.of_dict(self._ray.get(ready))
            except self._ray.exceptions.RayActorError as error:  # Ray restarts the actor
                if not again:
                    self._ask(actor, file, again=True)
                    continue
                verification = no_verdict(f"the machine that verified it was lost: {_line(error)}")
            except self._ray.exceptions.RayError as error:
                verification = no_verdict(f"Ray: {_line(error)}")
            self._idle.append(actor)
            return file, verification

    def end(self) -> None:
        """End the actors, and the cluster if it was started for them."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._disconnect()

    def _ask(self, actor: Any, file: Path, *, again: bool) -> None:
        asked = actor.verify.remote(file.name, file.read_text("utf-8", "surrogateescape"))
        self._running[asked] = file, actor, again


class _Host:
    """An actor of the cluster, which verifies one file after the other."""

    def __init__(self, options: dict[str, Any], neighbours: Mapping[str, str]) -> None:
        self._options = json.dumps(options)
        self._folder = TemporaryDirectory(prefix="ttools-batch-")
        self._server: Worker | None = None
        for name, text in neighbours.items():
            self._write(name, text)

    def verify(self, name: str, text: str) -> dict[str, Any]:
        file = self._write(name, text)
        if self._server is None:
            served = "ttools.verifier.batch.forks:serve_files"
            self._server = spawn_worker(served, [self._options], Limits())
        try:
            answer: dict[str, Any] = self._server.ask(str(file))
        except WorkerGoneError as error:
            self._server = None
            return no_verdict(f"during its verification, {error}").as_dict()
        file.unlink()
        return answer

    def _write(self, name: str, text: str) -> Path:
        file = Path(self._folder.name) / name
        file.write_text(text, "utf-8", "surrogateescape")
        return file


def _line(error: Exception) -> str:
    return str(error).strip().split("\n", maxsplit=1)[0]
