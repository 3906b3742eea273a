"""The worker processes of the conformance run: each is a pytest that runs cases as it is asked to.

A case that takes too long is ended with its whole process group, and a worker that died is
replaced; either costs the one case that was running.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.conformance.outcomes import Case, Outcome
from tools.conformance.plugin import ENGINE_VARIABLE
from tools.harness import ROOT, Worker

# Not "cpu": forks with a CPU backend of their own compare with that name to ask for less.
DEVICE = "cpu:0"
COLLECTION_SECONDS = 300.0
# Native code of earlier cases is never unloaded; a new worker costs some seconds.
CASES_OF_A_WORKER = 1500


class CollectionError(Exception):
    """pytest ended before it said what it collected; carries its output."""


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """How workers run.

    Attributes:
        tests: the `python/test` of the checkout, where its conftest.py is.
        files: test files below it.
        scratch: folder for caches and logs.
        timeout: seconds that a case may take.
        opt: LLVM's optimisation level.
        threads: threads of a launch.
        checks: what the sanitizer checks of every launch; None: nothing.
        engine: what runs the kernels, `native` or `eager`.
    """

    tests: Path
    files: Sequence[Path]
    scratch: Path
    timeout: float
    opt: int
    threads: int
    checks: str | None = None
    engine: str = "native"

    def command(self) -> list[str]:
        """The pytest that a worker is: none of the checkout's or the user's configuration."""
        settings = self.scratch / "pytest.ini"
        settings.write_text("[pytest]\n")
        folders = (f"--rootdir={self.tests}", f"--confcutdir={self.tests}")
        plugins = ("-p", "no:cacheprovider", "-p", "tools.conformance.plugin")
        python = [sys.executable, "-m", "pytest", "-q", "-c", str(settings), *folders, *plugins]
        if self.checks is not None:
            python += ["-p", "ttools.sanitizer.pytest_plugin", "--ttools-fail-on=warning"]
            python += [f"--ttools-sanitize={self.checks}"]
        return [*python, "--device", DEVICE, *map(str, self.files)]

    def environment(self) -> dict[str, str]:
        """The default backend with caches of its own, and without what would change its answers."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TTOOLS_", "TRITON_", "PYTEST_"))
        }
        # TTOOLS_CPU may be a user's question: does it hold on another machine?
        kept |= {name: os.environ[name] for name in ("TTOOLS_CPU",) if name in os.environ}
        return kept | {
            "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), kept.get("PYTHONPATH")])),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "TRITON_CACHE_DIR": str(self.scratch / "triton"),
            "TTOOLS_CACHE_DIR": str(self.scratch / "ttools"),
            "TTOOLS_OPT": str(self.opt),
            "TTOOLS_THREADS": str(self.threads),
            "TTOOLS_QUIET": "1",
            "OMP_NUM_THREADS": str(self.threads),
            "CUDA_VISIBLE_DEVICES": "",
            ENGINE_VARIABLE: self.engine,
        }


class PytestWorker(Worker):
    """One pytest process.

    Raises:
        CollectionError: it could not start.
    """

    def __init__(self, options: WorkerOptions) -> None:
        super().__init__(options.command(), folder=options.tests, environment=options.environment())
        self._options = options
        listing = self.receive(COLLECTION_SECONDS)
        if listing is None:
            raise CollectionError(self.output()[-4000:] or "pytest ended without a word")
        self.cases = [Case(**case) for case in listing["cases"]]
        self.failed_files: dict[str, str] = listing["failed_files"]

    def run(self, case: Case) -> Outcome:
        """Run a case; afterwards the process may have ended."""
        begin = time.perf_counter()
        answer = self.ask(case.node, self._options.timeout)
        if answer is not None:
            return Outcome(**answer)
        seconds = time.perf_counter() - begin
        reason = "timeout" if self.expired else "crash"
        return Outcome(case.node, "wrong", reason, self.why(), seconds)
