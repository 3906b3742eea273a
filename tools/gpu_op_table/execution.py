"""Runs groups of rows on the reference and on the engine, and compares the results.

Groups run in several processes, because compilation for a GPU uses one core, and because a kernel
that a GPU rejects must not affect other kernels.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from tools.gpu_op_table.comparison import Distance, combined, distance
from tools.gpu_op_table.kernel_text import BLOCK, load
from tools.gpu_op_table.rows import DTYPES, Group, Output, Row
from tools.gpu_op_table.samples import lane_count, make_inputs

#: What the engine is compared with: a GPU, its own simplest schedule, or the eager engine.
Reference = Literal["gpu", "materialised", "eager"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a row.

    Attributes:
        row: The row.
        distance: Distance between the results; None if there are no results.
        example: Operands and both results at the element with the largest distance.
        error: Reason why there are no results.
    """

    row: Row
    distance: Distance | None = None
    example: str = ""
    error: str = ""

    @property
    def status(self) -> str:
        """The outcome: `equal`, `within` the bound, `known` to exceed it, `outside`, or `error`."""
        if self.distance is None:
            return "error"
        if self.distance.outside:
            return "known" if self.row.deviation else "outside"
        return "within" if self.distance.different else "equal"


def run_groups(
    groups: list[Group], reference: Reference, jobs: int, done: Callable[[Outcome], None]
) -> list[Outcome]:
    """Run all groups; return the outcomes in the order of the groups.

    Args:
        groups: Groups of rows, each of which is one kernel.
        reference: Side with which the engine is compared.
        jobs: Number of processes; 1 runs everything in this process.
        done: Called with every outcome as soon as it is known.
    """
    by_group: dict[int, list[Outcome]] = {}
    for index, outcomes in _outcomes(groups, reference, jobs):
        by_group[index] = outcomes
        for outcome in outcomes:
            done(outcome)
    return [outcome for index in sorted(by_group) for outcome in by_group[index]]


def _outcomes(
    groups: list[Group], reference: Reference, jobs: int
) -> Iterator[tuple[int, list[Outcome]]]:
    with tempfile.TemporaryDirectory(prefix="op-table-") as folder:
        if jobs == 1:
            for index, group in enumerate(groups):
                yield index, run_group(group, reference, folder)
            return
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(jobs, mp_context=context) as pool:
            futures = {
                pool.submit(run_group, group, reference, folder): index
                for index, group in enumerate(groups)
            }
            for future in as_completed(futures):
                yield futures[future], future.result()


def run_group(group: Group, reference: Reference, folder: str) -> list[Outcome]:
    """Run one kernel on both sides; if that fails, run each of its rows separately."""
    try:
        return _compare(group, reference, Path(folder))
    except Exception as error:  # noqa: BLE001 - any compiler error is the row's outcome
        if len(group.rows) == 1:
            return [Outcome(row=group.rows[0], error=_sentence(error))]
    return [
        outcome for row in group.rows for outcome in run_group(Group((row,)), reference, folder)
    ]


def _sentence(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    cause = error.__cause__
    if cause is not None and str(cause):
        lines = [*lines[-1:], str(cause).strip().splitlines()[-1]]
    return f"{type(error).__name__}: {' / '.join(lines[-2:])}"[:300]


def _compare(group: Group, reference: Reference, folder: Path) -> list[Outcome]:
    kernel = load(group, folder)
    count = lane_count(group.inputs)
    inputs = make_inputs(group.inputs, count)
    grid = (count // BLOCK if group.lanes else group.rows[0].programs,)
    sides = []
    for side in (reference, "engine"):
        outputs = [_allocate(output, count) for output in group.outputs]
        device = "cuda" if reference == "gpu" else "cpu"
        arguments = [tensor.to(device) for tensor in (*inputs, *outputs)]
        with _context(side, sampled=reference == "eager"):
            kernel[grid](*arguments)
        sides.append([tensor.cpu() for tensor in arguments[len(inputs) :]])
    expected, actual = sides
    return list(_outcomes_of(group, inputs, actual, expected))


#: On a slow engine, only these programs run, and the outputs of all other programs stay unchanged.
_SAMPLE = "0,last,random:6"


def _context(side: str, *, sampled: bool) -> AbstractContextManager[Any]:
    from ttools.interpreter import interpret

    if side == "gpu":
        return nullcontext()
    return interpret(
        schedule="materialised" if side == "materialised" else "fused",
        engine="eager" if side == "eager" else "native",
        programs=_SAMPLE if sampled else None,
    )


def _allocate(output: Output, count: int) -> torch.Tensor:
    kind = DTYPES[output.dtype]
    full = torch.full(output.shape or (count,), output.fill, dtype=torch.float64)
    return full.float().to(kind) if kind.itemsize == 1 else full.to(kind)


def _outcomes_of(
    group: Group,
    inputs: list[torch.Tensor],
    actual: list[torch.Tensor],
    expected: list[torch.Tensor],
) -> Iterator[Outcome]:
    position = 0
    for row in group.rows:
        mine = slice(position, position + len(row.outputs))
        position = mine.stop
        pairs = list(zip(actual[mine], expected[mine], strict=True))
        parts = [distance(a, b, row.bound) for a, b in pairs]
        example = ""
        for (a, b), part in zip(pairs, parts, strict=True):
            if part.worst is not None and not example:
                example = _example(inputs if group.lanes else [], a, b, part.worst)
        yield Outcome(row=row, distance=combined(parts), example=example)


def _example(
    inputs: list[torch.Tensor], actual: torch.Tensor, expected: torch.Tensor, index: int
) -> str:
    operands = ", ".join(f"{n} = {_show(t, index)}" for n, t in zip("xyz", inputs, strict=False))
    place = operands or f"element {index}"
    return f"{place}: reference {_show(expected, index)}, engine {_show(actual, index)}"


def _show(tensor: torch.Tensor, index: int) -> str:
    value = tensor.reshape(-1)[index].item()
    if not isinstance(value, float):
        return str(value)
    return f"{value:.17g}" if tensor.dtype is torch.float64 else f"{value:.9g}"
