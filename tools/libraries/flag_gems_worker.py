"""The worker process for FlagGems' operators: receives operators' indices, returns outcomes.

`flag_gems.py` starts it, and replaces it if it dies. FlagGems does not support CPUs, so a variable
selects the vendor NVIDIA, and the device map puts tensors on the GPU into the CPU's memory.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from dataclasses import asdict
from typing import Any

from tools.harness import requests
from tools.libraries.outcomes import Outcome, explain, first_line

TOLERANCES = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 2e-2}


def main() -> None:
    """Answer each index of an operator with its outcomes."""
    numbers, send = requests()
    os.environ.setdefault("GEMS_VENDOR", "nvidia")

    from ttools.core.device_map.mapping import map_devices
    from ttools.interpreter import interpret

    with interpret(), map_devices({"cuda": "cpu"}):
        from tools.libraries.flag_gems_operators import OPERATORS

        for number in numbers:
            send([asdict(outcome) for outcome in run(OPERATORS[number])])


def run(operator: Any) -> list[Outcome]:
    """Return one outcome for each of the operator's types."""
    outcomes = []
    for dtype in operator.types:
        begin = time.perf_counter()
        verdict, reason = verdict_of(operator, dtype)
        kind = str(dtype).removeprefix("torch.")
        seconds = time.perf_counter() - begin
        outcomes.append(Outcome(f"{label(operator)}[{kind}]", verdict, reason, seconds))
    return outcomes


def label(operator: Any) -> str:
    """Return the operator's name with its keyword arguments."""
    return " ".join([operator.name, *(f"{name}={value}" for name, value in operator.keywords)])


def verdict_of(operator: Any, dtype: Any) -> tuple[str, str]:
    """Run both implementations and compare the results; return a verdict and a reason."""
    import torch

    from ttools.interpreter import interpret

    flag_gems = _import_flag_gems()
    torch.manual_seed(0)
    arguments = operator.arguments(dtype, "cuda")
    keywords = dict(operator.keywords)
    packet, _, overload = operator.aten.partition(".")
    reference = getattr(torch.ops.aten, packet)
    if overload:
        reference = getattr(reference, overload)
    expected = reference(*_cloned(arguments), **keywords)
    try:
        with interpret() as run:
            actual = getattr(flag_gems.ops, operator.name)(*arguments, **keywords)
    except Exception as error:  # noqa: BLE001 (any error of the library is an outcome)
        return explain(error)
    if not any(stats.launches for stats in run.stats):
        return "skipped", "launches no Triton kernel"
    tolerance = TOLERANCES[str(dtype).removeprefix("torch.")]
    return compare(_listed(actual)[: operator.results], _listed(expected), tolerance)


def _import_flag_gems() -> Any:
    with contextlib.redirect_stdout(sys.stderr):
        import importlib

        return importlib.import_module("flag_gems")


def _cloned(values: Any) -> Any:
    import torch

    if isinstance(values, torch.Tensor):
        return values.clone()
    if isinstance(values, (list, tuple)):
        return type(values)(_cloned(value) for value in values)
    return values


def compare(actual: Any, expected: Any, tolerance: float) -> tuple[str, str]:
    """Return verdict and reason for results, which are tensors or sequences of tensors."""
    import torch

    pairs = list(zip(_listed(actual), _listed(expected), strict=False))
    for ours, theirs in pairs:
        if theirs is None or ours is None:
            continue
        try:
            torch.testing.assert_close(
                torch.as_tensor(ours).double() if not theirs.is_complex() else ours,
                theirs.double() if not theirs.is_complex() else theirs,
                rtol=tolerance,
                atol=tolerance,
                equal_nan=True,
            )
        except AssertionError as error:
            lines = [line for line in str(error).splitlines() if line]
            return "wrong", first_line("; ".join(lines[1:3]) or lines[0])
    return "pass", ""


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


if __name__ == "__main__":
    main()
