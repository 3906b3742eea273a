"""Runs test files of a library's checkout by `ttools interpret -m pytest`, or under checks.

All files run in one process, because importing the library takes longer than most cases. If a case
terminates the process, only this case is lost: another process runs the rest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from tools.harness import ROOT, end_process
from tools.libraries.outcomes import Outcome, first_line
from tools.libraries.sampling import DONE, REPORT, SELECTION, Selection

_POLL = 0.5


@dataclass(frozen=True, kw_only=True)
class CheckoutOptions:
    """Options of a run.

    Attributes:
        checkout: Working directory, from which the library is imported as well.
        path: Further folders to import from.
        selection: Cases that run.
        case_timeout: Time limit for a case in seconds.
        silence: Seconds without an outcome after which a process is killed.
        device_map: Device map for tensors on the GPU.
        environment: Additional environment variables.
        arguments: Further arguments of pytest.
        checks: Checks of the pytest plugin, such as `default`. `off` runs plain pytest with the
            device map, as a reference for a run with checks. None runs the cases under
            `ttools interpret --first-config`.
    """

    checkout: Path
    path: tuple[Path, ...] = ()
    selection: Selection = field(default_factory=Selection)
    case_timeout: float = 60.0
    silence: float = 600.0
    device_map: str = "cuda=cpu"
    environment: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    checks: str | None = None

    def command(self) -> list[str]:
        """Return the command that runs pytest, without pytest's own arguments."""
        if self.checks is None:
            ttools = [sys.executable, "-m", "ttools_entry", "interpret", "--first-config"]
            return [*ttools, "--device-map", self.device_map, "-m", "pytest"]
        return [sys.executable, "-m", "pytest", f"--ttools-sanitize={self.checks}"]


def run(files: Sequence[tuple[str, Path]], options: CheckoutOptions) -> Iterator[list[Outcome]]:
    """Yield the outcomes of cases as they complete; a case's name begins with its file's name."""
    there = {name: file.resolve() for name, file in files if file.exists()}
    for name, _ in files:
        if name not in there:
            yield [Outcome(f"{name}::(file)", "failed", "the checkout has no such file")]
    if not there:
        return
    with tempfile.TemporaryDirectory() as folder:
        session = _Session(there, options, Path(folder))
        while not session.ended:
            yield from session.outcomes()


class _Session:
    """The processes that run some files, one after another.

    Attributes:
        ended: True if all cases have an outcome.
    """

    def __init__(self, files: Mapping[str, Path], options: CheckoutOptions, folder: Path) -> None:
        self.ended = False
        self._names = {str(file): name for name, file in files.items()}
        self._options = options
        self._report, self._done, self._log = (folder / name for name in ("report", "done", "log"))
        self._finished: list[str] = []
        self._collected: list[str] = []

    def outcomes(self) -> Iterator[list[Outcome]]:
        """Run the cases that have no outcome yet in a new process."""
        before = len(self._finished)
        self._collected.clear()
        self._report.write_text("")
        self._done.write_text(json.dumps(self._finished))
        with self._log.open("wb") as log, self._report.open(encoding="utf-8") as report:
            process = self._start(log)
            try:
                ended = yield from self._follow(process, report)
            finally:
                end_process(process)
        left = [case for case in self._collected if case not in self._finished]
        if left:
            yield [self._outcome({"case": left[0], "verdict": "failed", "reason": ended})]
        elif len(self._finished) == before:
            yield [Outcome("(files)", "failed", f"no cases; {self._error() or ended}")]
        self.ended = len(left) <= 1

    def _start(self, log: BinaryIO) -> subprocess.Popen[bytes]:
        options = self._options
        command = [*options.command(), *self._names, "-q"]
        command += ["-p", "tools.libraries.sampling", "-p", "no:cacheprovider"]
        command += ["-o", "log_cli=false", f"--timeout={options.case_timeout:g}"]
        command += ["--timeout-method=signal", "--continue-on-collection-errors"]
        command += options.arguments
        folders = [ROOT, options.checkout, *options.path]
        path = [*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            **options.environment,
            "TTOOLS_DEVICE_MAP": options.device_map,
            "PYTHONPATH": os.pathsep.join(path),
            # A checkout may have its own package `tools`, which must not be imported instead of
            # this one.
            "PYTHONSAFEPATH": "1",
            REPORT: str(self._report),
            DONE: str(self._done),
            SELECTION: json.dumps(asdict(options.selection)),
        }
        return subprocess.Popen(
            command,
            cwd=options.checkout,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def _follow(
        self, process: subprocess.Popen[bytes], report: TextIO
    ) -> Generator[list[Outcome], None, str]:
        """Yield the outcomes that a process writes; return how it ended."""
        heard = time.monotonic()
        while True:
            ended = process.poll()
            for line in report:
                heard = time.monotonic()
                message = json.loads(line)
                if "collected" in message:
                    self._collected += message["collected"]
                else:
                    yield [self._outcome(message)]
            if ended is not None:
                return f"the process ended with exit status {ended}"
            if time.monotonic() - heard > self._options.silence:
                return f"no outcome for {self._options.silence:g} s"
            time.sleep(_POLL)

    def _outcome(self, message: dict[str, Any]) -> Outcome:
        case = message.pop("case")
        self._finished.append(case)
        file, _, name = case.partition("::")
        return Outcome(f"{self._names.get(file, file)}::{name}", **message)

    def _error(self) -> str:
        """Return pytest's last error message, for a run without cases."""
        lines = self._log.read_text(encoding="utf-8", errors="replace").splitlines()
        errors = [line.removeprefix("E  ") for line in lines if line.startswith("E  ")]
        return f"pytest: {first_line(errors[-1])}" if errors else ""
