"""Tests of what other debuggers need: the hook of `breakpoint()`, and files and lines of frames."""

from __future__ import annotations

import inspect
import sys
from types import FrameType
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.interpreter import interpret


@triton.jit
def helper(v):
    half = v / 2
    return half  # noqa: RET504 - a line of its own


@triton.jit
def kernel(x_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    v = tl.load(x_ptr + offsets)
    if BLOCK > 2:
        v = helper(v)
    breakpoint()
    tl.store(x_ptr + offsets, v)


def line_of(function: Any, text: str) -> int:
    lines, start = inspect.getsourcelines(function.fn)
    return start + next(i for i, line in enumerate(lines) if text in line)


def test_the_hook_is_called_from_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[tuple[str, str, int, list[float]]] = []

    def hook(*_: object) -> None:
        frame = sys._getframe(1)
        v = frame.f_locals["v"].numpy().tolist()
        stopped.append((frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno, v))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    with interpret():
        kernel[(1,)](torch.arange(4.0), BLOCK=4)
    line = line_of(kernel, "breakpoint()")
    assert stopped == [(__file__, "kernel", line, [0.0, 0.5, 1.0, 1.5])]


def test_trace_events_have_the_file_and_lines_of_the_source(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    events: list[tuple[str, int]] = []

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code.co_filename != __file__ or frame.f_code.co_name not in ("kernel", "helper"):
            return None
        if event == "line":
            events.append((frame.f_code.co_name, frame.f_lineno))
        return trace

    monkeypatch.setattr(sys, "breakpointhook", lambda *_: None)
    with interpret(engine="eager"):
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            kernel[(1,)](torch.arange(4.0), BLOCK=4)
        finally:
            sys.settrace(before)
    assert events == [
        ("kernel", line_of(kernel, "offsets = ")),
        ("kernel", line_of(kernel, "v = tl.load")),
        ("kernel", line_of(kernel, "if BLOCK")),
        ("kernel", line_of(kernel, "v = helper")),
        ("helper", line_of(helper, "half = ")),
        ("helper", line_of(helper, "return half")),
        ("kernel", line_of(kernel, "breakpoint()")),
        ("kernel", line_of(kernel, "tl.store")),
    ]
