"""Tests that launches from files are stopped if they are endless or have too many programs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec.structs
import pytest
import torch
import triton
import triton.language as tl

from ttools.core.errors import KernelError
from ttools.core.records.reading import read_record
from ttools.core.records.writing import write_record
from ttools.interpreter import interpret
from ttools.interpreter.records.launch_recorder import record
from ttools.interpreter.records.replay import replay
from ttools.interpreter.records.ttir_file import run_ttir_file
from ttools.profiler import profile
from ttools.sanitizer import sanitize
from ttools.watch.api import watch

_LIMIT_S = 0.3
_HUGE = (2**31 - 1, 1, 1)

TTIR = """\
module {
  tt.func public @touch(%p: !tt.ptr<f32>) {
    %one = arith.constant 1.0 : f32
    tt.store %p, %one : !tt.ptr<f32>
    tt.return
  }
}
"""


@triton.jit
def count(x_ptr, step):
    i = step
    while i >= 0:
        tl.atomic_add(x_ptr + 1, 1)
        i = (i + step) % 8


@triton.jit
def touch(x_ptr, step):
    tl.store(x_ptr + tl.program_id(0) % 4, step)


Observing = Callable[[], AbstractContextManager[Any]]


def _endless(path: Path, observing: Observing) -> str:
    """Record a launch that ends, and change it into one that does not.

    Returns:
        A part of the message about the launch after its time limit.
    """
    with record(path):
        count[(1,)](torch.ones(4, dtype=torch.int32), -1)
    _compile_first(path, observing)
    recorded = read_record(path)
    (launch,) = recorded.launches
    arguments = tuple(
        msgspec.structs.replace(argument, value=3) if argument.name == "step" else argument
        for argument in launch.spec.arguments
    )
    endless = replace(launch, spec=msgspec.structs.replace(launch.spec, arguments=arguments))
    write_record(replace(recorded, launches=(endless,)), path)
    return "its only program had begun; its grid is (1"


def _huge(path: Path, observing: Observing) -> str:
    with record(path):
        touch[(1,)](torch.ones(4, dtype=torch.int32), 3)
    _compile_first(path, observing)
    recorded = read_record(path)
    launches = tuple(
        replace(launch, spec=msgspec.structs.replace(launch.spec, grid=_HUGE))
        for launch in recorded.launches
    )
    write_record(replace(recorded, launches=launches), path)
    return "of 2,147,483,647 programs had begun; its grid is (2147483647"


def _compile_first(path: Path, observing: Observing) -> None:
    """Compile the kernels of a record, so that the limit below stops launches only."""
    with observing():
        replay(path)


@pytest.mark.parametrize("make", [_endless, _huge])
@pytest.mark.parametrize(
    "observing",
    [
        pytest.param(nullcontext, id="alone"),
        pytest.param(lambda: interpret(order="natural"), id="interpret"),
        pytest.param(lambda: watch(["x_ptr"]), id="watch"),
        pytest.param(lambda: profile(on="cpu"), id="profile"),
        pytest.param(lambda: profile(on="cpu", counts=False, line_times=False), id="plain profile"),
    ],
)
def test_a_recorded_launch_is_stopped(
    tmp_path: Path, make: Callable[[Path, Observing], str], observing: Observing
) -> None:
    message = make(tmp_path / "a.tt", observing)
    with pytest.raises(KernelError) as caught, observing():
        replay(tmp_path / "a.tt", timeout=_LIMIT_S)
    assert caught.value.kind == "timeout"
    assert message in caught.value.message
    assert caught.value.help is not None
    assert "--timeout" in caught.value.help


@pytest.mark.parametrize("observing", [nullcontext, lambda: interpret(only=["other"])])
def test_a_launch_of_a_ttir_file_is_stopped(tmp_path: Path, observing: Observing) -> None:
    (tmp_path / "a.ttir").write_text(TTIR)
    message = r"stopped after .* grid is \(2147483647, 1, 1\)"
    run_ttir_file(tmp_path / "a.ttir", (1, 1, 1), {"p": "zeros:f32[4]"})
    with pytest.raises(KernelError, match=message), observing():
        run_ttir_file(tmp_path / "a.ttir", _HUGE, {"p": "zeros:f32[4]"}, timeout=_LIMIT_S)


def test_the_limit_of_the_run_takes_precedence(tmp_path: Path) -> None:
    _huge(tmp_path / "a.tt", interpret)
    with pytest.raises(KernelError, match="was stopped"), interpret(timeout=_LIMIT_S):
        replay(tmp_path / "a.tt", timeout=0)


def test_the_limit_of_the_sanitizer_gives_a_finding(tmp_path: Path) -> None:
    _endless(tmp_path / "a.tt", sanitize)
    with sanitize(timeout=_LIMIT_S) as checked:
        replay(tmp_path / "a.tt")
    assert [finding.kind for finding in checked.findings] == ["timeout"]


def test_launches_within_the_limit_finish(tmp_path: Path) -> None:
    with record(tmp_path / "a.tt"):
        touch[(4,)](torch.ones(4, dtype=torch.int32), 3)
    for timeout in (0, 600):
        (replayed,) = replay(tmp_path / "a.tt", timeout=timeout)
        assert replayed.tensors["x_ptr"].tolist() == [3, 3, 3, 3]
