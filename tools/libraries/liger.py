"""Runs Liger-Kernel's own test files from a checkout, each by `ttools interpret -m pytest`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tools.libraries.outcomes import Outcome
from tools.libraries.sampling import REPORT, SAMPLE, SEED

ROOT = Path(__file__).parents[2]

#: The operators whose test files run when none are named.
OPERATORS = (
    *("rms_norm", "layer_norm", "group_norm", "swiglu", "geglu", "rope", "cross_entropy"),
    *("fused_linear_cross_entropy", "kl_div", "jsd", "softmax", "sparsemax", "dyt"),
)


@dataclass(frozen=True, kw_only=True)
class LigerOptions:
    """How to run the files.

    Attributes:
        checkout: Of Liger-Kernel, with its `src` and `test`.
        only: The files `test/transformers/test_NAME.py` by NAME; `OPERATORS` if empty.
        sample: Cases of each function; all if 0.
        seed: Of the sample.
        case_timeout: Seconds for a case.
        file_timeout: Seconds for a file.
    """

    checkout: Path
    only: tuple[str, ...] = ()
    sample: int = 0
    seed: int = 0
    case_timeout: float = 60.0
    file_timeout: float = 600.0


def run(options: LigerOptions) -> Iterator[list[Outcome]]:
    """The outcomes of each file, as they come; names begin with the file's."""
    for name in options.only or OPERATORS:
        outcomes = _run_file(name, options)
        yield [replace(outcome, name=f"{name}::{outcome.name}") for outcome in outcomes]


def _run_file(name: str, options: LigerOptions) -> list[Outcome]:
    file = options.checkout / "test" / "transformers" / f"test_{name}.py"
    if not file.exists():
        return [Outcome("(file)", "failed", "the checkout has no such file")]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report"
        report.touch()
        ended = _pytest(file, report, options)
        return _read(report, ended)


def _pytest(file: Path, report: Path, options: LigerOptions) -> str:
    """Runs a file; how it ended."""
    command = [sys.executable, "-m", "ttools_entry", "interpret", "--device-map", "cuda=cpu"]
    command += ["-m", "pytest", str(file), "-q", "-p", "tools.libraries.sampling"]
    command += ["-p", "no:cacheprovider", "-o", "log_cli=false"]
    command += [f"--timeout={options.case_timeout:g}", "--timeout-method=signal"]
    path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
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
