"""Workers share a GPU's memory if the driver allows it; otherwise it is copied."""

from __future__ import annotations

import ctypes
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ttools.core.errors import TtoolsError
from ttools.tuner import run as tuning_run
from ttools.tuner.workers import shared_gpu_storage
from ttools.tuner.workers.serialized_launch import CannotSendError
from ttools.tuner.workers.shared_gpu_storage import CannotShareError, GpuContents, gpu_contents_of

MIB = 1 << 20


class Driver:
    """A CUDA driver for memory of this process, whose handles are addresses.

    Attributes:
        open: Number of open handles.
        fails: Names of functions that fail.
    """

    def __init__(self, allocation: torch.Tensor) -> None:
        self._allocation = allocation
        self.open = 0
        self.fails: set[str] = set()

    def function(self, name: str) -> Callable[..., int]:
        def call(*arguments: Any) -> int:
            if name in self.fails:
                return 201
            getattr(self, name)(*arguments)
            return 0

        return call

    def cuMemGetAddressRange_v2(self, start: Any, size: Any, address: Any) -> None:
        start._obj.value, size._obj.value = self._allocation.data_ptr(), self._allocation.numel()

    def cuIpcGetMemHandle(self, handle: Any, start: Any) -> None:
        ctypes.memmove(ctypes.byref(handle._obj), ctypes.byref(start), 8)

    def cuIpcOpenMemHandle_v2(self, start: Any, handle: Any, flags: int) -> None:
        start._obj.value = int.from_bytes(bytes(handle)[:8], "little")
        self.open += 1

    def cuMemcpyDtoD_v2(self, target: Any, source: Any, size: Any) -> None:
        ctypes.memmove(target.value, source.value, size.value)

    def cuCtxSynchronize(self) -> None:
        pass

    def cuIpcCloseMemHandle(self, start: Any) -> None:
        self.open -= 1


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    """Provide a driver with one allocation that contains consecutive numbers."""
    fake_driver = Driver(torch.arange(4 * MIB, dtype=torch.int32).to(torch.uint8))
    monkeypatch.setattr(shared_gpu_storage, "_function", fake_driver.function)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    empty = torch.empty
    monkeypatch.setattr(torch, "empty", lambda *size, device="", **more: empty(*size, **more))
    return fake_driver


def test_a_part_of_an_allocation_is_copied_and_closed(driver: Driver) -> None:
    part = driver._allocation[MIB + 512 : 3 * MIB]
    shared = gpu_contents_of(part)
    assert isinstance(shared, GpuContents)
    again = pickle.loads(pickle.dumps(shared)).tensor()
    assert torch.equal(again, part)
    assert again.data_ptr() != part.data_ptr()
    assert driver.open == 0


def test_a_handle_is_closed_if_the_copy_fails(driver: Driver) -> None:
    shared = gpu_contents_of(driver._allocation)
    assert shared is not None
    driver.fails = {"cuMemcpyDtoD_v2"}
    with pytest.raises(CannotShareError, match="CUDA error 201"):
        shared.tensor()
    assert driver.open == 0


@pytest.mark.parametrize("name", ["cuMemGetAddressRange_v2", "cuIpcGetMemHandle"])
def test_memory_mapped_by_an_allocator_is_not_shared(driver: Driver, name: str) -> None:
    driver.fails = {name}
    assert gpu_contents_of(driver._allocation) is None


def test_few_bytes_are_not_shared(driver: Driver) -> None:
    assert gpu_contents_of(driver._allocation[: MIB - 1]) is None


def test_without_a_driver_nothing_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(
        shared_gpu_storage, "_function", lambda name: getattr(ctypes.CDLL(None), name)
    )
    assert gpu_contents_of(torch.zeros(MIB, dtype=torch.uint8)) is None


@pytest.mark.parametrize(
    ("reason", "tries"), [(CannotShareError("no"), [True, False]), (TtoolsError("else"), [True])]
)
def test_a_launch_that_a_worker_cannot_open_is_sent_completely(
    monkeypatch: pytest.MonkeyPatch, reason: TtoolsError, tries: list[bool]
) -> None:
    attempts: list[bool] = []

    class Bench:
        def __init__(self, shares: bool, timeout: float, pools: Any, sent: Any) -> None:
            self.shares = shares

        def open(self, expected: Any) -> None:
            if self.shares:
                raise CannotSendError("a worker process cannot recreate the launch") from reason

        def close(self) -> None:
            pass

    def opening_of(*words: Any, replaces: bool) -> bool:
        shares: bool = words[3]
        attempts.append(shares)
        return shares

    monkeypatch.setattr(tuning_run, "opening_of", opening_of)
    monkeypatch.setattr(tuning_run, "RemoteBench", Bench)
    monkeypatch.setattr(tuning_run, "chosen_gpu", lambda before: {})
    run: Any = object.__new__(tuning_run.TuningRun)
    launch: Any = SimpleNamespace(configs=[])
    run._shares, run._make_measuring, run._options = True, None, SimpleNamespace(timeout=1.0)
    run._measuring, run._triton = SimpleNamespace(on_gpu=True), ("", "")
    run._start_workers, run._visible = lambda: None, {}
    if len(tries) == 1:
        with pytest.raises(CannotSendError):
            run._opened(launch, [])
    else:
        assert not run._opened(launch, []).shares
        assert not run._opened(launch, []).shares  # memory is not shared for the next launch
        tries = [*tries, False]
    assert attempts == tries


@pytest.mark.gpu
def test_a_worker_on_a_gpu_reads_the_memory_and_does_not_change_it() -> None:
    import triton
    import triton.language as tl

    from ttools.tuner import TuneOptions, TuningRun

    @triton.autotune([triton.Config({"BLOCK": b}) for b in (256, 512, 1024)], key=["n"])
    @triton.jit
    def add_one_kernel(x_ptr, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + at, tl.load(x_ptr + at, mask=at < n) + 1, mask=at < n)

    x = torch.arange(4 * MIB, device="cuda", dtype=torch.float32)
    before = x.clone()
    with TuningRun(TuneOptions(), on="gpu") as run:
        add_one_kernel[lambda meta: (triton.cdiv(4 * MIB, meta["BLOCK"]),)](x, 4 * MIB)
        assert run._shares
    assert torch.equal(x, before + 1)
    assert [trial.status for trial in run.results[0].trials.values()] == ["ok"] * 3
