"""Launches that a GPU rejects are rejected and reported if a CPU device replaces the GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from ttools.core.device_map import memory
from ttools.core.device_map.mapping import map_devices
from ttools.core.errors import LaunchRefusedError
from ttools.interpreter import interpret
from ttools.sanitizer import sanitize

CUDA = {"cuda": "cpu"}


@triton.jit
def first_kernel(x_ptr, out_ptr):
    program = tl.program_id(0) + tl.program_id(1) + tl.program_id(2)
    tl.store(out_ptr, 1, mask=program == 0)  # `x_ptr` may be null


def tensors(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(4, device=device), torch.zeros(4, device=device)


def grid(*extents: int, **options: int) -> Callable[[str], None]:
    return lambda device: first_kernel[extents](*tensors(device), **options)


def on_host(x: Callable[[torch.Tensor], Any]) -> Callable[[str], None]:
    def launch(device: str) -> None:
        argument, out = torch.ones(4, device="cpu"), torch.zeros(4, device=device)
        first_kernel[(1,)](x(argument), out)

    return launch


TAKEN = {
    "long axis 0": grid(70_000),
    "axis 1 at its end": grid(1, 65_535),
    "axis 2 at its end": grid(1, 1, 65_535),
    "empty": grid(0, 70_000),
    "32 warps": grid(1, num_warps=32),
    "a cluster": grid(1, num_ctas=16),
    "pinned": on_host(lambda x: x.pin_memory()),
    "no memory": on_host(lambda x: x[:0].clone()),
    "an address": on_host(lambda x: None),
}
REFUSED = {
    "axis 1": (
        grid(1, 65_536),
        "axis 1 of the grid has 65,536 programs, but at most 65,535",
    ),
    "axis 2": (grid(1, 1, 65_536), "axis 2 of the grid has 65,536 programs"),
    "clusters": (grid(1, num_ctas=32), "needs clusters of 32 blocks, but they have at most 16"),
}
HOST = {
    "tensor of the host": (on_host(lambda x: x), "`x_ptr` is a tensor on the CPU"),
    "view of the host's": (on_host(lambda x: x[1:]), "Pointer argument cannot be accessed"),
    "wrapped": (on_host(lambda x: triton.reinterpret(x, tl.int32)), "`x_ptr` is a tensor on the"),
}


@pytest.mark.parametrize("name", TAKEN)
def test_valid_launches_run_and_are_not_reported(name: str) -> None:
    with map_devices(CUDA):
        with interpret() as run:
            TAKEN[name]("cuda")
        with sanitize(checks=["launch"]) as report:
            TAKEN[name]("cuda")
    assert run.warnings == []
    assert report.findings == []


@pytest.mark.parametrize("name", REFUSED | HOST)
def test_invalid_launches_are_refused_and_reported(name: str) -> None:
    launch, message = (REFUSED | HOST)[name]
    with map_devices(CUDA):
        with interpret(), pytest.raises(LaunchRefusedError, match=message) as caught:
            launch("cuda")
        assert isinstance(caught.value, (RuntimeError, ValueError)), (
            "the same type as Triton's error"
        )
        with sanitize(checks=["launch"]) as report, pytest.raises(LaunchRefusedError):
            launch("cuda")
    (finding,) = report.findings
    assert (finding.kind, finding.severity) == ("refused_launch", "error")
    assert message in finding.message
    assert finding.launch is not None


@pytest.mark.parametrize("is_mapped", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_invalid_launches_run_on_the_cpu_and_are_reported(name: str, is_mapped: bool) -> None:
    launch, message = REFUSED[name]
    with map_devices(CUDA if is_mapped else {}):
        with interpret() as run:
            launch("cpu")
        with sanitize(checks=["launch"]) as report:
            launch("cpu")
    assert [message in warning for warning in run.warnings] == [True]
    (finding,) = report.findings
    assert message in finding.message


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_triton_refuses_too_many_warps_itself(device: str) -> None:
    with map_devices(CUDA), interpret(), pytest.raises(triton.OutOfResources, match="threads"):
        grid(1, num_warps=64)(device)


def test_cpu_tensors_are_accepted_until_a_launch_has_gpu_tensors() -> None:
    for _ in range(2):
        with map_devices(CUDA), interpret():
            grid(1)("cpu")
            grid(1)("cuda")
            with pytest.raises(LaunchRefusedError, match="`x_ptr` is a tensor on the CPU"):
                grid(1)("cpu")
        assert not memory.has_mapped_launch()
    with interpret():
        grid(1)("cpu")


def test_limits_are_those_of_the_selected_device() -> None:
    refused = pytest.raises(
        LaunchRefusedError, match="clusters of 2 blocks, but they have at most 1"
    )
    with map_devices({**CUDA, "capability": "8.6"}), interpret(), refused:
        grid(1, num_ctas=2)("cuda")
    with map_devices({**CUDA, "capability": "9.0"}), interpret():
        grid(1, num_ctas=2)("cuda")


def test_a_script_can_handle_the_refusal() -> None:
    with map_devices(CUDA), interpret():
        x, out = tensors("cuda")
        try:
            first_kernel[(1, 65_536)](x, out)
        except RuntimeError:
            first_kernel[(65_536, 1)](x, out)
        assert out[0] == 1


@triton.jit
def staged_product_kernel(a_ptr, b_ptr, c_ptr, K, B: tl.constexpr, BK: tl.constexpr):
    r, k = tl.arange(0, B), tl.arange(0, BK)
    acc = tl.zeros((B, B), tl.float32)
    for k0 in range(0, K, BK):
        a = tl.load(a_ptr + r[:, None] * K + (k0 + k)[None, :])
        b = tl.load(b_ptr + (k0 + k)[:, None] * B + r[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + r[:, None] * B + r[None, :], acc)


@pytest.mark.parametrize(
    ("device", "capability", "stages", "sentence"),
    [
        ("cuda", None, 8, "needs 262,144 bytes of shared memory, but only 232,448 are available"),
        ("cuda", None, 7, None),
        ("cuda", "9.0", 8, "needs 262,144 bytes of shared memory, but only 232,448 are available"),
        ("cuda", "8.6", 5, "needs 131,072 bytes of shared memory, but only 101,376 are available"),
        ("cuda", "8.6", 2, None),
        ("cpu", None, 8, None),  # no GPU is involved
    ],
)
def test_shared_memory_of_the_emulated_gpu(
    device: str, capability: str | None, stages: int, sentence: str | None
) -> None:
    named = {} if capability is None else {"capability": capability}
    with map_devices({**CUDA, **named}):
        a = torch.ones(128, 512, dtype=torch.float16, device=device)
        b = torch.ones(512, 128, dtype=torch.float16, device=device)
        out = torch.zeros(128, 128, device=device)
        with sanitize(checks=["launch"]) as report:
            for _ in range(2):
                staged_product_kernel[(1,)](a, b, out, 512, B=128, BK=64, num_stages=stages)
    assert out[0, 0] == 512
    messages = [f.message for f in report.findings]
    assert [sentence in message for message in messages] == [True] if sentence else messages == []


def test_a_configuration_that_the_autotuner_skips_is_a_note() -> None:
    configs = [triton.Config({"B": 128, "BK": 64}, num_stages=stages) for stages in (8, 2)]
    tuned = triton.autotune(configs, key=[])(staged_product_kernel)
    with map_devices(CUDA):
        a = torch.ones(128, 512, dtype=torch.float16, device="cuda")
        b = torch.ones(512, 128, dtype=torch.float16, device="cuda")
        with sanitize(checks=["launch"]) as report:
            tuned[(1,)](a, b, torch.zeros(128, 128, device="cuda"), 512)
    (finding,) = report.findings
    assert (finding.kind, finding.severity) == ("refused_launch", "note")
    assert finding.message.endswith("; Triton's autotuner skips this configuration")
