"""Workers use the GPU that the program has selected; CUDA is a fake."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.tuner import TuneOptions, TuningRun
from ttools.tuner import run as tuning_run
from ttools.tuner.workers.serving import opening_of
from ttools.tuner.workers.visible_gpu import chosen_gpu, visible_gpus

CUDA, HIP = "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"
#: Replaces CUDA's variable in processes without a GPU.
VARIABLE = "TTOOLS_TEST_GPU"
PARENT = os.getpid()


@pytest.fixture(autouse=True)
def unsafe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable bounds checks, so that kernels can crash their process."""
    monkeypatch.setenv("TTOOLS_UNSAFE", "1")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (CUDA, HIP, "CUDA_DEVICE_ORDER", "ROCR_VISIBLE_DEVICES"):
        monkeypatch.delenv(name, raising=False)


class Gpus:
    """A fake of CUDA with several GPUs.

    Attributes:
        current: Number of the selected GPU.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.current = 0
        monkeypatch.setattr(torch.cuda, "current_device", lambda: self.current)
        monkeypatch.setattr(
            torch.cuda, "set_device", lambda number: setattr(self, "current", number)
        )
        monkeypatch.setattr(
            torch.cuda, "get_device_properties", lambda number: SimpleNamespace(uuid=f"id-{number}")
        )


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Gpus:
    return Gpus(monkeypatch)


def test_a_program_without_a_selection_does_not_affect_its_workers(gpus: Gpus) -> None:
    assert chosen_gpu(visible_gpus()) == {}


def test_a_gpu_selected_by_number_is_passed_by_its_uuid(gpus: Gpus) -> None:
    before = visible_gpus()
    torch.cuda.set_device(1)
    assert chosen_gpu(before) == {CUDA: "GPU-id-1"}
    torch.cuda.set_device(0)
    assert chosen_gpu(before) == {}


def test_a_gpu_selected_by_a_variable_is_passed_by_its_uuid(
    gpus: Gpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = visible_gpus()
    monkeypatch.setenv(CUDA, "3")  # the only GPU that this process sees
    assert chosen_gpu(before) == {CUDA: "GPU-id-0"}
    assert chosen_gpu(visible_gpus()) == {}, "workers inherit the variable"


@pytest.mark.parametrize(
    ("hip", "variable", "listed", "number", "expected"),
    [
        (None, CUDA, "MIG-a, MIG-b", 1, {CUDA: "MIG-b"}),
        ("6.4", HIP, "4,5", 1, {HIP: "5"}),
        ("6.4", CUDA, "4,5", 1, {HIP: "5"}),
        ("6.4", HIP, "", 2, {HIP: "2"}),
        ("6.4", HIP, "7", 2, {HIP: "2"}),
    ],
)
def test_mig_devices_and_amd_gpus_are_passed_by_their_names_in_the_list(
    gpus: Gpus,
    monkeypatch: pytest.MonkeyPatch,
    hip: str | None,
    variable: str,
    listed: str,
    number: int,
    expected: dict[str, str],
) -> None:
    monkeypatch.setattr(torch.version, "hip", hip)
    monkeypatch.setenv(variable, listed)
    torch.cuda.set_device(number)
    assert chosen_gpu({}) == expected


def test_without_a_uuid_the_number_is_passed(gpus: Gpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda number: SimpleNamespace())
    torch.cuda.set_device(2)
    assert chosen_gpu({}) == {CUDA: "2"}


@pytest.mark.parametrize("pinned", [False, True])
def test_workers_get_the_gpu_unless_they_are_pinned(
    gpus: Gpus, monkeypatch: pytest.MonkeyPatch, pinned: bool
) -> None:
    environments: list[Any] = []
    monkeypatch.setattr(
        tuning_run, "opening_of", lambda *words, replaces: environments.append(words[-1])
    )
    monkeypatch.setattr(
        tuning_run, "RemoteBench", lambda *words: SimpleNamespace(open=lambda expected: None)
    )
    run: Any = object.__new__(TuningRun)
    run._options, run._start_workers = SimpleNamespace(timeout=1.0), lambda: None
    run._measuring, run._triton = SimpleNamespace(on_gpu=True), ("", "")
    run._make_measuring, run._shares = (lambda: None) if pinned else None, True
    run._visible = visible_gpus()
    torch.cuda.set_device(1)
    launch: Any = SimpleNamespace(configs=[])
    run._opened(launch, [])
    assert environments == [{} if pinned else {CUDA: "GPU-id-1"}]


@triton.jit
def shift_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr, KIND: tl.constexpr):  # type: ignore[no-untyped-def]
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    if KIND == "crash":
        offs = offs.to(tl.int64) * 1_000_000_000_000
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask) + 1, mask=mask)


def sees_its_own(arguments: dict[str, Any]) -> None:
    """Fail if a worker does not see the GPU that the program has selected."""
    assert os.getpid() == PARENT or os.environ.get(VARIABLE) == str(arguments["n"])


def test_workers_with_another_gpu_and_crashed_workers_are_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def choosing(launch: Any, measuring: Any, triton: Any, shares: bool, _: Any, **options: Any):
        variables = {VARIABLE: str(launch.arguments["n"])}
        return opening_of(launch, measuring, triton, shares, variables, **options)

    monkeypatch.setattr(tuning_run, "opening_of", choosing)
    configs = [
        triton.Config({"BLOCK": block, "KIND": kind}, pre_hook=sees_its_own)
        for block, kind in ((32, "right"), (64, "crash"), (128, "right"))
    ]
    kernel = triton.autotune(configs, key=["n"])(shift_kernel)
    with TuningRun(TuneOptions(search="exhaustive")) as run:
        for n in (500, 600):
            x, out = torch.rand(n), torch.zeros(n)
            kernel[lambda meta, n=n: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
            assert torch.equal(out, x + 1)
    for result in run.results:
        assert [trial.status for trial in result.trials.values()] == ["ok", "crashed", "ok"]
        assert result.notes == []
