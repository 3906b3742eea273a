"""Launches that fail or that the user stops: what they showed before is kept."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.errors import KernelError
from ttools.interpreter import interpret
from ttools.sanitizer import sanitize


@triton.jit
def never_ends(x_ptr, out_ptr):
    tl.store(out_ptr + tl.program_id(0), tl.load(x_ptr + 12) + 1)
    total = 0.0
    while total < 10:
        total += tl.load(x_ptr) * 0
    tl.store(out_ptr, total)


@triton.jit
def asserts(x_ptr, out_ptr):
    offs = tl.arange(0, 16)
    x = tl.load(x_ptr + offs)
    tl.device_assert(x > 0, "positive")
    tl.store(out_ptr + offs, x)


def _type_ctrl_c_when(started: torch.Tensor) -> threading.Thread:
    def wait() -> None:
        while not started.all():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.parametrize("programs", [1, 2])
@pytest.mark.parametrize("checked", [True, False])
def test_endless_loop_is_interrupted(programs: int, checked: bool) -> None:
    x, out = torch.ones(10 if checked else 16), torch.zeros(programs)
    report: Any = sanitize(threads=2) if checked else nullcontext()
    thread = _type_ctrl_c_when(out)
    with interpret(threads=2), report, pytest.raises(KeyboardInterrupt):
        never_ends[(programs,)](x, out)
    thread.join()
    if checked:
        assert [(f.kind, f.count) for f in report.findings] == [("oob_load", programs)]
        assert [(entry.kernel, entry.count) for entry in report.launches] == [("never_ends", 1)]


def test_assertion_leaves_what_made_it_fail() -> None:
    with sanitize() as report, pytest.raises(KernelError, match="`positive` failed"):
        asserts[(1,)](torch.ones(10), torch.ones(16), debug=True)
    (finding,) = report.findings
    assert (finding.kind, finding.lane) == ("oob_load", (10,))
    assert [entry.kernel for entry in report.launches] == ["asserts"]
