"""Kernels that do not compile are reduced, and fail in the same way afterwards."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.core.compilation.reduction import failing_kernels

from ttools.core.compilation.kernel_source import source_of_signature
from ttools.core.compilation.reduction import Reduction, ReductionProgress, reduce_failure
from ttools.core.compilation.reduction.candidates import lines
from ttools.core.gpus.targets import read_target
from ttools.core.triton_versions import triton_version

#: Lines that every reduced kernel may have at most.
_MOST_LINES = 15
_VECTOR = "*fp32:16,*fp32:16,i32,128"


@dataclass(frozen=True, kw_only=True)
class _Case:
    """A kernel of `failing_kernels`.

    Attributes:
        stage: The stage that fails.
        text: A part of the message or of the class of the error.
        kind: How it fails.
    """

    kernel: str
    signature: str = _VECTOR
    target: str = "sm_90"
    options: Mapping[str, int] = field(default_factory=dict)
    stage: str = "front end"
    text: str
    kind: str = "error"
    compile_seconds: float = 60.0


CASES = [
    _Case(
        kernel="dot_shapes",
        signature="*fp16:16,*fp16:16,*fp16:16,i32,i32,i32:16,i32,i32,64,128,32",
        text="must have equal reduction dimensions",
    ),
    _Case(
        kernel="carried_type",
        signature="*fp16:16,*fp32,i32,i32,128",
        text="is re-assigned to",
    ),
    _Case(kernel="carried_shape", text="has initial type fp32"),
    _Case(
        kernel="odd_range",
        signature="*fp32:16,*fp32,*fp32,i32,fp32,96",
        text="must be a power of 2",
    ),
    _Case(
        kernel="float_offsets",
        signature="*fp32:16,*fp32,i32,fp32,128",
        target="gfx942",
        options={"num_warps": 8},
        text="invalid operands of type pointer<fp32>",
    ),
    _Case(
        kernel="return_in_loop",
        signature="*i32:16,*i32,i32,i32,128",
        text="Cannot have `return` statements inside",
    ),
    _Case(
        kernel="missing_constexpr",
        signature="*fp32:16,*fp32,i32,i32,i32",
        text="must be of type tl.constexpr",
    ),
    _Case(kernel="unknown_attribute", text="no attribute 'hyperbolic_tangent'"),
    _Case(kernel="global_variable", text="Cannot access global variable LIMIT"),
    _Case(
        kernel="branch_types",
        signature="*fp32:16,*fp32,i32,i32,128",
        text="Mismatched type for y",
    ),
    _Case(
        kernel="too_many_warps",
        options={"num_warps": 64, "num_stages": 4},
        stage="llir",
        kind="resources",
        text="threads",
    ),
    _Case(
        kernel="shared_memory",
        signature="*fp16:16,*fp16:16,*fp16:16,i32,i32:16,i32:16,128,256,64",
        target="sm_86",
        options={"num_warps": 8, "num_stages": 4},
        stage="llir",
        kind="resources",
        text="bytes of shared memory, but only 101,376 are available",
    ),
    _Case(kernel="rejected_operation", text="must be a multiple of the op's packed_element"),
    _Case(kernel="assembler_error", stage="cubin", text="fastexp"),
    _Case(
        kernel="compiler_crash",
        stage="llir",
        kind="crash",
        text="inline asm with one output cannot return struct",
    ),
    _Case(
        kernel="endless_unrolling",
        signature="*fp32:16,*fp32,i32,100000000,128",
        kind="timeout",
        text="did not end within 2 s",
        compile_seconds=2.0,
    ),
]
#: Cases of the fast suite: an error of the front end, one of an MLIR verifier, and a crash.
_FAST = ("odd_range", "rejected_operation", "compiler_crash")


def _reduced(case: _Case) -> Reduction:
    function = getattr(failing_kernels, case.kernel)
    source = source_of_signature(function, case.signature, case.options)
    target = read_target(case.target)
    reduction = reduce_failure(source, target, compile_seconds=case.compile_seconds)
    assert reduction is not None
    return reduction


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=case.kernel, marks=[] if case.kernel in _FAST else pytest.mark.slow)
        for case in CASES
    ],
)
def test_a_failing_kernel_is_reduced(case: _Case, tmp_path: Path) -> None:
    reduction = _reduced(case)
    failure = reduction.failure
    assert (failure.kind, failure.stage) == (case.kind, case.stage)
    assert case.text in f"{failure.error}\n{failure.message}"
    assert reduction.ended == "smallest"
    assert lines(reduction.kernel) <= min(_MOST_LINES, lines(reduction.original) - 1)
    if case.kind != "timeout":
        _assert_script_fails(reduction, tmp_path)


def _assert_script_fails(reduction: Reduction, folder: Path) -> None:
    """Check that the script fails in the same way in a process that does not import ttools."""
    path = folder / "reduced.py"
    path.write_text(reduction.script)
    assert "ttools" not in path.read_text()
    environment = {**os.environ, "TRITON_CACHE_DIR": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, str(path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode != 0
    if reduction.failure.kind == "crash":
        assert done.returncode < 0
    line = reduction.failure.message.splitlines()[0]
    shown = "Not a name of any known instruction" if "ptxas" in line else line
    assert shown in done.stderr.replace("\\'", "'")


@pytest.mark.slow
@pytest.mark.skipif(triton_version() < (3, 9), reason="the assertion is in Triton 3.9")
def test_the_failing_pass_is_named() -> None:
    case = _Case(
        kernel="failing_pass",
        signature="*fp16:16,*fp16:16,i32,128",
        options={"num_ctas": 2},
        stage="ttgir",
        text="",
    )
    reduction = _reduced(case)
    assert reduction.failure.compiler_pass == "NVGPUWarpSpecialization"
    assert "Assertion" in reduction.failure.message
    assert lines(reduction.kernel) <= _MOST_LINES
    assert "pass NVGPUWarpSpecialization" in reduction.script


def test_a_kernel_that_compiles_is_not_reduced() -> None:
    source = source_of_signature(failing_kernels.too_many_warps, _VECTOR, {"num_warps": 1})
    assert reduce_failure(source, read_target("sm_90")) is None


def test_ctrl_c_keeps_the_smallest_kernel_so_far() -> None:
    source = source_of_signature(failing_kernels.carried_shape, _VECTOR, {})

    def interrupt(progress: ReductionProgress) -> None:
        if progress.candidates == 5:
            os.kill(os.getpid(), signal.SIGINT)

    assert threading.current_thread() is threading.main_thread()
    reduction = reduce_failure(source, read_target("sm_90"), on_progress=interrupt)
    assert reduction is not None
    assert reduction.ended == "interrupted"
    assert reduction.candidates == 5
    assert lines(reduction.kernel) <= lines(reduction.original)
    assert "interrupted, so a smaller kernel may exist" in " ".join(reduction.script.split("\n# "))


def test_the_time_limit_ends_the_search() -> None:
    source = source_of_signature(failing_kernels.carried_shape, _VECTOR, {})
    reduction = reduce_failure(source, read_target("sm_90"), seconds=0.0)
    assert reduction is not None
    assert (reduction.ended, reduction.candidates) == ("timeout", 0)
