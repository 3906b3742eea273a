"""The trusted process that repeats what a candidate did, on inputs of the judge's choice.

It never imports the candidate's file. It executes plans under the checks that a candidate runs
under, and answers as a candidate's process does, so that the judge compares both alike.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

import torch

from ttools.verifier.replay.execution import Executor
from ttools.verifier.replay.plan import ConstantStorage, Plan, PlanError, read_plan
from ttools.verifier.workers import results
from ttools.verifier.workers.candidate import Candidate


class Replayer(Candidate):
    """Answers requests about plans.

    Args:
        timeout: Seconds that a launch may take.
    """

    def __init__(self, timeout: float) -> None:
        super().__init__("", timeout)
        self._executor = Executor(timeout)
        self._plan: Plan | None = None
        self._function = self._execute

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request."""
        if request["do"] == "plan":
            return self._take(request["data"])
        return super().answer(request)

    def _load(self, _: dict[str, Any]) -> dict[str, Any]:
        # A candidate can write to the folder of compiled kernels, which contains native code.
        os.environ["TTOOLS_CACHE"] = "off"
        return {"configs": []}

    def _take(self, data: bytes) -> dict[str, Any]:
        """Read a plan for the calls that follow; say what in it does not come from the inputs."""
        try:
            self._plan = plan = read_plan(data)
        except PlanError as error:
            self._plan = None
            return {"forged": error.message}
        constants = [each for each in plan.storages if isinstance(each, ConstantStorage)]
        return {
            "reads": list(plan.reads),
            "kernels": [_digest(text.encode()) for text in plan.kernels],
            "constants": [[_digest(each.data), each.size] for each in constants if each.size],
        }

    def _execute(self, **arguments: Any) -> dict[str, Any]:
        if self._plan is None:
            raise PlanError("there is no plan")
        tensors = {
            name: each
            for key, value in arguments.items()
            for name, each in results.flat(value, key)
            if isinstance(each, torch.Tensor)
        }
        return self._executor.run(self._plan, tensors)

    def _parts(self, found: Any, *_: Any) -> list[tuple[str, Any]]:
        """Return the results, which have their names in the plan."""
        return list(found.items())

    def _tuners(self) -> list[Any]:
        return []


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
