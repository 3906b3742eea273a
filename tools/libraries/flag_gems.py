"""Runs FlagGems' operators in a separate process, with a time limit for each."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from tools.harness import Worker
from tools.libraries.outcomes import Outcome

#: Additional seconds for the first operator of a process, for its imports.
_START_S = 60.0


def run(only: list[str], timeout: float) -> Iterator[list[Outcome]]:
    """Yield the outcomes of each operator as soon as they are known.

    Args:
        only: Names of operators; all if empty.
        timeout: Time limit in seconds for an operator in all its types, including compilation.
    """
    from tools.libraries.flag_gems_operators import OPERATORS
    from tools.libraries.flag_gems_worker import label

    command = [sys.executable, "-m", "tools.libraries.flag_gems_worker"]
    worker: Worker | None = None
    for number, operator in enumerate(OPERATORS):
        if only and operator.name not in only:
            continue
        limit = timeout
        if worker is None or not worker.alive:
            worker = Worker(command, environment={**os.environ, "TTOOLS_QUIET": "1"})
            limit += _START_S
        answer = worker.ask(number, limit)
        if answer is None:
            yield [Outcome(label(operator), "failed", worker.why())]
        else:
            yield [Outcome(**fields) for fields in answer]
    if worker is not None:
        worker.end()
