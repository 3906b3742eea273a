"""The trusted process that executes a candidate's plans on inputs that the candidate never saw.

The process never imports the candidate's file. It executes plans under the same checks under which
a candidate runs. Its answers have the same form as those of a candidate's process, so that the
results of both are compared in the same way.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection
from typing import Any

import torch
from msgspec.structs import replace

from ttools.core.location import restrict_source_files
from ttools.core.spec import TensorSpec
from ttools.sanitizer.memory import allocations
from ttools.verifier.cases.tensors import dtype_of
from ttools.verifier.replay.execution import Executor
from ttools.verifier.replay.numbers import count_numbers
from ttools.verifier.replay.plan import (
    ConstantStorage,
    InputStorage,
    Plan,
    PlanError,
    Storage,
    is_filled_without_launches,
    read_plan,
)
from ttools.verifier.replay.work import Work
from ttools.verifier.workers import results
from ttools.verifier.workers.candidate import Candidate


class Replayer(Candidate):
    """Answers requests about plans.

    Args:
        timeout: Time limit of a launch in seconds.
        may_read: Returns whether the process may read a source file that a plan names. By default,
            it reads none.
        has_cache: If True, no candidate can write to the user's cache of compiled kernels, so the
            process uses it.
    """

    def __init__(
        self,
        timeout: float,
        may_read: Callable[[str], bool] = lambda file: False,
        *,
        has_cache: bool = False,
    ) -> None:
        super().__init__("", timeout)
        self._may_read, self._has_cache = may_read, has_cache
        #: Executors for long calls and for short calls.
        self._executors = Executor(timeout), Executor(timeout)
        self._executor = self._executors[0]
        self._plan: Plan | None = None
        self._function = self._execute
        self._backward = results.WHOLE
        #: Byte that new memory contains, see `Executor.run`.
        self._fill: int | None = None
        #: True if an argument has special values; these are often equal by coincidence.
        self._is_special = False
        self._level = os.environ.get("TTOOLS_OPT", "")

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request."""
        if request["do"] == "plan":
            self._choose_level(is_quick=request.get("quick", False))
            return self._take(request["data"], request.get("blank", ()))
        return super().answer(request)

    def _load(self, _: dict[str, Any]) -> dict[str, Any]:
        restrict_source_files(self._may_read)
        if not self._has_cache:
            os.environ["TTOOLS_CACHE"] = "off"
        # To watch allocations, operators of torch are replaced. This watcher stays active, so that
        # they are not replaced again for each call.
        allocations.watch(_Ignoring())  # type: ignore[abstract]
        return {}

    def _choose_level(self, *, is_quick: bool) -> None:
        """Choose how much the kernels of the following calls are optimised.

        Short calls spend nearly all of their time on compilation, and compilation spends most of
        its time on optimisation.
        """
        self._executor = self._executors[is_quick]
        os.environ["TTOOLS_OPT"] = "0" if is_quick else self._level

    def _take(self, data: bytes, blank: Collection[bytes]) -> dict[str, Any]:
        """Read the plan for the following calls; return its constants, and what the host reads.

        The answer also contains `numbers`, which is how many numbers the plan contains (see
        `count_numbers`), and `is_filled`, which says whether the results could be correct if the
        launches were left out.

        Args:
            data: The plan in its encoded form.
            blank: Digests of constants that are replaced by zeros.
        """
        try:
            self._plan = plan = read_plan(data)
        except PlanError as error:
            self._plan = None
            return {"forged": error.message}
        constants = [storage for storage in plan.storages if isinstance(storage, ConstantStorage)]
        if blank:
            self._plan = replace(plan, storages=tuple(_blanked(e, blank) for e in plan.storages))
        return {
            "numbers": count_numbers(plan),
            "reads": list(plan.reads),
            "is_filled": is_filled_without_launches(plan),
            "constants": [
                [digest_of(constant.data), constant.size] for constant in constants if constant.size
            ],
        }

    def _execute(self, **arguments: Any) -> dict[str, Any]:
        if self._plan is None:
            raise PlanError("there is no plan")
        tensors = dict(results.tensors_of(arguments))
        tensors |= self._weights(self._plan)
        finds_copies = not self._is_special
        return self._executor.run(self._plan, tensors, self._fill, finds_copies=finds_copies)

    def _weights(self, plan: Plan) -> dict[str, torch.Tensor]:
        """Return the weights of the results of a plan, see `results.weights_of`."""
        weights = {}
        for storage in plan.storages:
            name = storage.argument if isinstance(storage, InputStorage) else ""
            result = plan.results.get(name.removeprefix(results.WEIGHT))
            if name.startswith(results.WEIGHT) and isinstance(result, TensorSpec):
                like = torch.empty(result.shape, dtype=dtype_of(result.dtype), device="cpu")
                weights[name] = results.weights_like(like, self._backward)
        return weights

    def _called(self, request: dict[str, Any]) -> dict[str, Any]:
        self._backward = results.BackwardPass(**request.get("backward", {}))
        self._fill, self._is_special = request.get("fill"), request.get("is_special", False)
        answer = super()._called(request)
        executor = self._executor
        return answer | {
            "copied": executor.copied,
            "finished": executor.finished,
            "finished_by": executor.finished_by,
            "computed_for": executor.computed_for,
            "moved": executor.moved,
            "tables": executor.tables,
        }

    def _recording(self, *_: Any) -> None:
        return None

    def _work(self) -> Work:
        return self._executor.work

    def _parts(self, found: Any, *_: Any) -> list[tuple[str, Any]]:
        """Return the results with the names that they have in the plan."""
        return list(found.items())


class _Ignoring(allocations.Watcher):
    """Ignores allocations between calls."""


def _blanked(storage: Storage, blank: Collection[bytes]) -> Storage:
    if isinstance(storage, ConstantStorage) and digest_of(storage.data) in blank:
        return ConstantStorage(bytes(storage.size))
    return storage


def digest_of(data: bytes) -> bytes:
    """Return the digest by which constants and kernels of plans are identified."""
    return hashlib.sha256(data).digest()
