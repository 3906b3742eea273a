"""A kernel on the engine, on a GPU and in NumPy: which of the three stands alone.

The GPU is whatever driver is active for the tensors of a device; without one, `cpu` tensors go to
the engine itself, which is how this file is tested.
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

#: What is announced while Triton compiles a kernel for the GPU, which may take minutes.
COMPILATION = "compilation for the GPU"

#: What a GPU's approximate functions may be off beyond the engine's, in units in the last place:
#: exponentials of large numbers, see docs/reference/gpu_agreement.md.
SLACK = 128


def examine_three_ways(
    program: Program,
    folder: Path,
    device: str,
    *,
    announce: Callable[[str], None] = lambda _: None,
    reference: Launch | None = None,
) -> Verdict:
    """Runs a kernel on both and compares the three results.

    Args:
        folder: where its source goes.
        device: of the tensors, for torch.
        announce: called with what comes next: each side, and the kernel's compilation for the GPU.
        reference: runs the kernel in the GPU's place.
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
        except Exception as error:  # noqa: BLE001 - whatever happens is the kernel's verdict
            text = f"{type(error).__name__}: {error}"
            failures.append(Failure(program.seed, _kind(side, device, error), side, text))
            break
    if len(sides) == 2:
        failures += classify(program, before, expected, sides["engine"], sides["gpu"])
    taken = time.process_time() - start
    return Verdict(program.seed, tuple(sides), tuple(failures), taken)


def _kind(side: str, device: str, error: Exception) -> Kind:
    """What an exception means: a refusal, a GPU that a kernel has broken, a defect of ours."""
    if is_refusal(error):
        return "rejected"
    if device == "cuda" and is_gpu_broken():
        return "crash"
    return "error" if side == "engine" else "rejected"


def classify(
    program: Program, before: Memory, expected: Memory, engine: Memory, gpu: Memory
) -> list[Failure]:
    """Which of the three stands alone, if they are not one."""
    buffers = {buffer.name: buffer for buffer in program.buffers}

    def differ(right: Memory, left: Memory, slack: int) -> list[Mismatch]:
        return compare(buffers, before, right, left, slack=slack)

    engine_wrong = differ(expected, engine, 0)
    gpu_wrong = differ(expected, gpu, SLACK)
    sides_differ = differ(gpu, engine, SLACK)
    if engine_wrong and gpu_wrong:
        kind: Kind = "all differ" if sides_differ else "oracle only"
        shown = engine_wrong
    elif engine_wrong:
        kind, shown = "engine only", engine_wrong
    elif gpu_wrong:
        kind, shown = "gpu only", gpu_wrong
    else:
        return []
    text = "\n".join(map(str, shown))
    return [Failure(program.seed, kind, "three ways", text, shown[0])]


def _allow_descriptors(device: str) -> None:
    """Gives Triton what it keeps descriptors in that a kernel makes."""
    if device != "cuda":
        return
    import torch
    import triton

    def allocate(size: int, _alignment: int, _stream: int | None) -> torch.Tensor:
        return torch.empty(size, dtype=torch.int8, device="cuda")

    triton.set_allocator(allocate)
