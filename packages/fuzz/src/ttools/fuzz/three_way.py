"""Comparison of a kernel's results on the engine, on a GPU and in NumPy, to find which one differs.

The GPU is the active driver for tensors of a device. Without a GPU, tensors on the device `cpu` run
on the engine itself, which the tests use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ttools.core.environment import is_gpu_broken
from ttools.fuzz import oracle
from ttools.fuzz.comparison import Mismatch, compare
from ttools.fuzz.elements import Array
from ttools.fuzz.execution import Runner
from ttools.fuzz.memory import contents
from ttools.fuzz.program import Program
from ttools.fuzz.trial import Failure, Kind, Verdict, is_refusal

Memory = Mapping[str, Array]
Launch = Callable[[Memory], Memory]

#: Announced while Triton compiles a kernel for the GPU, which may take minutes.
COMPILATION = "compilation for the GPU"

#: Error bound of a GPU's approximate functions beyond the engine's, in units in the last place.
#: Exponentials of large numbers need it, see docs/reference/gpu_agreement.md.
SLACK = 128


def examine_three_ways(
    program: Program,
    folder: Path,
    device: str,
    *,
    announce: Callable[[str], None] = lambda _: None,
    reference: Launch | None = None,
) -> Verdict:
    """Run a kernel on engine and GPU, and compare the three results.

    Args:
        folder: Folder for the kernel's source.
        device: Device of the tensors, for torch.
        announce: Called before each step: the run on each side, and the compilation for the GPU.
        reference: Runs the kernel in place of the GPU; None for the GPU.
    """
    start = time.process_time()
    _allow_descriptors(device)
    before = {buffer.name: contents(buffer) for buffer in program.buffers}
    expected = oracle.run(program)
    runner = Runner(program, folder, ordered=True)
    steps: dict[str, Callable[[Memory], Memory | None]] = {
        "engine": lambda memory: runner.run_on(device, memory),
        COMPILATION: lambda memory: runner.compile_on(device, memory),
        "gpu": lambda memory: runner.launch_on(device, memory),
    }
    if reference is not None:
        del steps[COMPILATION]
        steps["gpu"] = reference
    sides: dict[str, Memory] = {}
    failures: list[Failure] = []
    for side, step in steps.items():
        announce(side)
        try:
            after = step(before)
            if after is not None:
                sides[side] = after
        except Exception as error:  # noqa: BLE001 - any exception is the kernel's verdict
            text = f"{type(error).__name__}: {error}"
            failures.append(Failure(program.seed, _kind(side, device, error), side, text))
            break
    if len(sides) == 2:
        failures += classify(program, before, expected, sides["engine"], sides["gpu"])
    taken = time.process_time() - start
    return Verdict(program.seed, tuple(sides), tuple(failures), taken)


def _kind(side: str, device: str, error: Exception) -> Kind:
    """Return the kind of failure: rejected by Triton, lost GPU, or defect of ttools."""
    if is_refusal(error):
        return "rejected"
    if device == "cuda" and is_gpu_broken():
        return "crash"
    return "error" if side == "engine" else "rejected"


def classify(
    program: Program, before: Memory, expected: Memory, engine: Memory, gpu: Memory
) -> list[Failure]:
    """Return which of the three results differs from the others; empty if all agree."""
    buffers = {buffer.name: buffer for buffer in program.buffers}

    def differ(right: Memory, left: Memory, slack: int) -> list[Mismatch]:
        return compare(buffers, before, right, left, slack=slack)

    engine_wrong = differ(expected, engine, 0)
    gpu_wrong = differ(expected, gpu, SLACK)
    sides_differ = differ(gpu, engine, SLACK)
    if engine_wrong and gpu_wrong:
        kind: Kind = "all differ" if sides_differ else "oracle only"
        mismatches = engine_wrong
    elif engine_wrong:
        kind, mismatches = "engine only", engine_wrong
    elif gpu_wrong:
        kind, mismatches = "gpu only", gpu_wrong
    else:
        return []
    text = "\n".join(map(str, mismatches))
    return [Failure(program.seed, kind, "three ways", text, mismatches[0])]


def _allow_descriptors(device: str) -> None:
    """Set Triton's allocator, from which a kernel that makes descriptors gets memory for them."""
    if device != "cuda":
        return
    import torch
    import triton

    def allocate(size: int, _alignment: int, _stream: int | None) -> torch.Tensor:
        return torch.empty(size, dtype=torch.int8, device="cuda")

    triton.set_allocator(allocate)
