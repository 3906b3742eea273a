"""The worker processes of the conformance run, each of which is a pytest that runs single cases.

If a case exceeds its time limit, the whole process group is killed. A worker that has died is
replaced. In both cases, only the case that was running is lost.
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

# The name is not "cpu", because forks with their own CPU backend run fewer tests for that name.
DEVICE = "cpu:0"
COLLECTION_SECONDS = 300.0
# A worker is replaced after this many cases, because it never unloads native code.
CASES_OF_A_WORKER = 1500


class CollectionError(Exception):
    """pytest ended before it sent the collected cases; the message is its output."""


@dataclass(frozen=True, kw_only=True)
class WorkerOptions:
    """Options of the workers.

    Attributes:
        tests: The folder `python/test` of the checkout, which contains conftest.py.
        files: Test files in that folder.
        scratch: Folder for caches and logs.
        timeout: Time limit for a case in seconds.
        opt: Optimisation level of LLVM.
        threads: Number of threads of a launch.
        checks: Checks of the sanitizer for every launch; None for no checks.
        engine: Engine that runs the kernels, `native` or `eager`.
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
        """Return the pytest command, which ignores configuration of the checkout and the user."""
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
        """Return the environment of a worker, with caches of its own.

        Variables that change results are removed.
        """
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TTOOLS_", "TRITON_", "PYTEST_"))
        }
        # TTOOLS_CPU is kept, so that a user can run the tests for another CPU.
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
        CollectionError: The process could not start or collect.
    """

    def __init__(self, options: WorkerOptions) -> None:
        super().__init__(options.command(), folder=options.tests, environment=options.environment())
        self._options = options
        listing = self.receive(COLLECTION_SECONDS)
        if listing is None:
            raise CollectionError(self.output()[-4000:] or "pytest ended without output")
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
