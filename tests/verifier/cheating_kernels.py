"""Softmax candidates that compute outside of kernels, hide that, or make false claims about it."""

import _thread
import ctypes
import gc
import os
import struct
import sys
import time
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch.utils._python_dispatch import _disable_current_modes

DOMAIN = {"rows": (1, 12), "columns": (1, 60)}


def inputs(rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(rows, columns, generator=generator)}


def inputs_without_seed(rows, columns):
    return inputs(rows, columns, 3)


def reference(x):
    return torch.softmax(x, dim=1)


def sum_reference(x):
    return x.sum(1)


@triton.jit
def softmax_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n, other=-float("inf"))
    e = tl.exp(x - tl.max(x, 0))
    tl.store(y_ptr + row * n + c, e / tl.sum(e, 0), mask=c < n)


@triton.jit
def twice_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + o, tl.load(x_ptr + o, mask=o < n) * 2.0, mask=o < n)


def honest(x):
    rows, n = x.shape
    y = torch.empty(rows, n)
    block = triton.next_power_of_2(n)
    softmax_kernel[(rows,)](x, y, x.stride(0), x.stride(1), n, BLOCK=block)
    return y


def twice(half):
    """Launch a kernel that only doubles its argument, which already has nearly the whole result."""
    y = torch.empty(half.shape)
    twice_kernel[(triton.cdiv(half.numel(), 64),)](half, y, half.numel(), BLOCK=64)
    return y


def half_softmax(x):
    """Return half of the result, which NumPy computes from the memory of x."""
    storage = x.untyped_storage()
    memory = np.frombuffer(ctypes.string_at(storage.data_ptr(), storage.nbytes()), np.float32)
    strides = [4 * stride for stride in x.stride()]
    values = np.lib.stride_tricks.as_strided(memory[x.storage_offset() :], x.shape, strides)
    powers = np.exp(values - values.max(1, keepdims=True))
    return torch.from_numpy(powers / powers.sum(1, keepdims=True) * np.float32(0.5))


def numpy_on_an_address(x):
    return twice(half_softmax(x))


def thread_without_a_class(x):
    halves, lock = [], _thread.allocate_lock()
    lock.acquire()

    def work():
        halves.append(torch.softmax(x, 1) * 0.5)
        lock.release()

    _thread.start_new_thread(work, ())
    lock.acquire()
    return twice(halves[0])


def child_process(x):
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, half_softmax(x).numpy().tobytes())
        os._exit(0)
    data = bytearray()
    while len(data) < 4 * x.numel():
        data += os.read(reading, 65536)
    os.wait()
    os.close(reading)
    os.close(writing)
    return twice(torch.frombuffer(data, dtype=torch.float32).view(x.shape))


def modes_off(x):
    with _disable_current_modes(), torch._C.DisableTorchFunction():
        half = torch.softmax(x, 1) * 0.5
    return twice(half)


def recorder_replaced(x):
    from ttools.verifier.replay import work
    from ttools.verifier.workers import recording

    for cls, name in (
        (work.Work, "operator"),
        (work.Work, "leave"),
        (recording.PlanRecorder, "read"),
    ):
        setattr(cls, name, lambda *a: None)
    return twice(torch.softmax(x, 1) * 0.5)


def recorder_paused(x):
    """Compute with the recorder paused, as it is while the engine runs."""
    recorders = [e for e in gc.get_objects() if type(e).__name__ == "PlanRecorder"]
    for recorder in recorders:
        recorder._is_paused = True
    half = half_softmax(x)
    for recorder in recorders:
        recorder._is_paused = False
    return twice(half)


def steps_removed(x):
    """Return a result of torch, and delete the recorded steps."""
    honest(torch.zeros(1, 1))
    result = half_softmax(x) * 2
    for item in gc.get_objects():
        if type(item).__name__ == "PlanRecorder":
            item._steps.clear()
    return result


def plan_of_another_call(x):
    """Replace the recorded plan by that of a launch on zeros."""
    y = honest(x)
    for item in gc.get_objects():
        if type(item).__name__ == "PlanRecorder":
            replacement = type(item)([("x", x)])
            item.plan = lambda parts, replacement=replacement: replacement.plan(parts)
    return y


def claims_to_read(x):
    """Claim that the host reads the argument, so that the call is not replayed on other inputs."""
    half = half_softmax(x)
    for item in gc.get_objects():
        if type(item).__name__ == "PlanRecorder":
            item._reads.add("x")
    return twice(half)


def claims_that_there_is_no_plan(x):
    """Claim that the call uses an operator that cannot be replayed."""
    for item in gc.get_objects():
        if type(item).__name__ == "PlanRecorder":
            item._refused = "an operator is not among those that are replayed"
    return twice(half_softmax(x))


def claims_timeouts(x):
    """Return a wrong result, and claim that a launch exceeded its time limit, without an error."""
    from ttools.core.process.channel import Channel

    send = Channel.send
    finding = dict.fromkeys(("check", "message", "kernel", "where", "witness", "help"), "")
    finding |= {"kind": "timeout", "severity": "note"}

    def forged(self, message, seconds=None):
        send(self, message | {"findings": [finding]} if "results" in message else message)

    if len(_calls) > 1:
        Channel.send = forged  # type: ignore[method-assign]
        return x
    _calls.append(x.shape)
    return honest(x)


def claims_a_long_answer(x):
    """Announce an answer that would fill the memory of the process that reads it."""
    from ttools.core.process.channel import Channel

    open_ones = (each for each in gc.get_objects() if type(each) is Channel and each.fileno() >= 0)
    (channel,) = open_ones
    channel._socket.send(struct.pack("<Q", 100 << 20))
    return honest(x)


_calls: list[Any] = []


def frames_changed(x):
    half = half_softmax(x)
    frame: Any
    for frame in sys._current_frames().values():
        while frame is not None:
            for value in list(frame.f_locals.values()):
                for name in ("counts", "made", "found"):
                    if hasattr(getattr(value, name, None), "clear"):
                        getattr(value, name).clear()
            frame = frame.f_back
    return twice(half)


def replaces_a_function(x):
    """Compute honestly, but replace the function that a comparison in this process may call."""
    torch.allclose = lambda *a, **k: True
    return honest(x)


@triton.jit
def copy_kernel(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + o, tl.load(x_ptr + o, mask=o < n), mask=o < n)


@triton.jit
def sum_kernel(x_ptr, y_ptr, s0, s1, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * s0 + c * s1, mask=c < n, other=0.0)
    tl.store(y_ptr + row, tl.sum(x, 0))


def sums_by_numpy(x):
    """Return a few elements, far fewer than the argument has, that NumPy computed."""
    storage = x.untyped_storage()
    memory = np.frombuffer(ctypes.string_at(storage.data_ptr(), storage.nbytes()), np.float32)
    strides = [4 * stride for stride in x.stride()]
    values = np.lib.stride_tricks.as_strided(memory[x.storage_offset() :], x.shape, strides)
    sums = torch.from_numpy(values.sum(1))
    y = torch.empty(sums.shape)
    copy_kernel[(triton.cdiv(sums.numel(), 64),)](sums, y, sums.numel(), BLOCK=64)
    return y


_workspaces: dict[int, torch.Tensor] = {}


def sums_in_a_workspace(x):
    """Keep a workspace between calls, which holds the result of the last call."""
    rows, n = x.shape
    sums = _workspaces.setdefault(rows, torch.zeros(rows))
    block = triton.next_power_of_2(n)
    sum_kernel[(rows,)](x, sums, x.stride(0), x.stride(1), n, BLOCK=block)
    return sums.clone()


def launches_by_chance(x):
    """Use one of two kernels, depending on torch's initial seed."""
    y = torch.empty(x.shape)
    rows, n = x.shape
    block = triton.next_power_of_2(n) * (1 + torch.initial_seed() % 2)
    softmax_kernel[(rows,)](x, y, x.stride(0), x.stride(1), n, BLOCK=block)
    return y


def launches_by_value(x):
    """Use one of two kernels, depending on an element that the host reads."""
    y = torch.empty(x.shape)
    rows, n = x.shape
    block = triton.next_power_of_2(n) * (1 + int(x[0, 0] > 0))
    softmax_kernel[(rows,)](x, y, x.stride(0), x.stride(1), n, BLOCK=block)
    return y


def sleeps(x):
    time.sleep(3600)
    return honest(x)
