"""Runs test files of a library's checkout, each by `ttools interpret -m pytest`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tools.libraries.outcomes import Outcome
from tools.libraries.sampling import REPORT, SAMPLE, SEED

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class CheckoutOptions:
    """How to run the files.

    Attributes:
        checkout: The folder to run in, from which the library is imported as well.
        path: Further folders to import from.
        sample: Cases of each function; all if 0.
        seed: Of the sample.
        case_timeout: Seconds for a case.
        file_timeout: Seconds for a file.
    """

    checkout: Path
    path: tuple[Path, ...] = ()
    sample: int = 0
    seed: int = 0
    case_timeout: float = 60.0
    file_timeout: float = 600.0


def run(files: Sequence[tuple[str, Path]], options: CheckoutOptions) -> Iterator[list[Outcome]]:
    """The outcomes of each file, as they come; names begin with the name given to the file."""
    for name, file in files:
        outcomes = _run_file(file, options)
        yield [replace(outcome, name=f"{name}::{outcome.name}") for outcome in outcomes]


def _run_file(file: Path, options: CheckoutOptions) -> list[Outcome]:
    if not file.exists():
        return [Outcome("(file)", "failed", "the checkout has no such file")]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        report.touch()
        ended = _pytest(file, report, options)
        return _read(report, ended)


def _pytest(file: Path, report: Path, options: CheckoutOptions) -> str:
    """Runs a file; how it ended."""
    command = [sys.executable, "-m", "ttools_entry", "interpret", "--device-map", "cuda=cpu"]
    command += ["-m", "pytest", str(file), "-q", "-p", "tools.libraries.sampling"]
    command += ["-p", "no:cacheprovider", "-o", "log_cli=false"]
    command += [f"--timeout={options.case_timeout:g}", "--timeout-method=signal"]
    folders = [ROOT, options.checkout, *options.path]
    path = [*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path),
        REPORT: str(report),
        SAMPLE: str(options.sample),
        SEED: str(options.seed),
    }
    try:
        done = subprocess.run(
            command,
            cwd=options.checkout,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=options.file_timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"the file was stopped after {options.file_timeout:g} s"
    return f"the process ended with exit status {done.returncode}"


def _read(report: Path, ended: str) -> list[Outcome]:
    """The outcomes written down, and one for each case that has none."""
    collected: list[str] = []
    outcomes: list[Outcome] = []
    for line in report.read_text(encoding="utf-8").splitlines():
        message = json.loads(line)
        if "collected" in message:
            collected = message["collected"]
        else:
            outcomes.append(Outcome(**message))
    seen = {outcome.name for outcome in outcomes}
    outcomes += [Outcome(name, "failed", ended) for name in collected if name not in seen]
    return outcomes or [Outcome("(file)", "failed", f"no cases; {ended}")]
