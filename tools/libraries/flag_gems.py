"""Runs FlagGems' operators in a process of their own, with a time limit for each."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.libraries.outcomes import Outcome

ROOT = Path(__file__).parents[2]


def run(only: list[str], timeout: float) -> Iterator[list[Outcome]]:
    """The outcomes of each operator, as they come.

    Args:
        only: Names of operators; all if empty.
        timeout: Seconds for an operator in all its types, with compilation.
    """
    from tools.libraries.flag_gems_operators import OPERATORS
    from tools.libraries.flag_gems_worker import label

    worker: subprocess.Popen[str] | None = None
    for number, operator in enumerate(OPERATORS):
        if only and operator.name not in only:
            continue
        # The first answer of a process comes after its imports.
        limit = timeout if worker else timeout + 60
        worker = worker or _start()
        answer = _ask(worker, number, limit)
        if answer is not None:
            yield [Outcome(**fields) for fields in json.loads(answer)]
            continue
        died = worker.poll()
        reason = f"no answer after {timeout:g} s" if died is None else f"crashed (exit {died})"
        worker.kill()
        worker.wait()
        worker = None
        yield [Outcome(label(operator), "failed", reason)]
    if worker is not None:
        worker.kill()
        worker.wait()


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tools.libraries.flag_gems_worker"],
        cwd=ROOT,
        env={**os.environ, "TTOOLS_QUIET": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def _ask(worker: subprocess.Popen[str], number: int, limit: float) -> str | None:
    """The worker's answer; None if it died or did not answer in time."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(f"{number}\n")
        worker.stdin.flush()
    except BrokenPipeError:
        return None
    ready, _, _ = select.select([worker.stdout], [], [], limit)
    line = worker.stdout.readline() if ready else ""
    if ready and not line:
        worker.wait(timeout=10)
    return line or None
