"""Tests of the option `--device-map` and of the variable `TTOOLS_DEVICE_MAP`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ttools.core.device_map.map_option import DeviceMap, emulated_gpu, read_device_map
from ttools.core.device_map.mapping import VARIABLE, map_devices, requested
from ttools.core.device_map.properties import describe, forget, launch_limits
from ttools.core.errors import UsageError
from ttools.core.gpus.launch_rules import ANY_CUDA, limits_of
from ttools.core.gpus.targets import read_target

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("off", None),
        (" OFF", None),
        ("cuda=cpu", DeviceMap()),
        ("cuda=cpu,capability=9.0", DeviceMap(capability=(9, 0))),
        ("cuda=cpu,capability=8.0", DeviceMap(capability=(8, 0))),
        ("sms=132, capability=10.3 ,cuda=cpu", DeviceMap(capability=(10, 3), sms=132)),
    ],
)
def test_valid_device_maps(text: str, expected: DeviceMap | None) -> None:
    assert read_device_map(text) == expected
    if expected is not None:
        assert read_device_map(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "neither `off` nor"),
        ("cpu", "neither `off` nor"),
        ("cuda=cpu,cuda=cpu", "neither `off` nor"),
        ("cuda=gpu", "not supported"),
        ("capability=9.0", "not supported"),
        ("cuda=cpu,warps=3", "not supported"),
        ("cuda=cpu,sms=0", "from 1 to 65535"),
        ("cuda=cpu,sms=many", "from 1 to 65535"),
        ("cuda=cpu,sms=70000", "from 1 to 65535"),
        ("cuda=cpu,capability=9", "capability=9.0"),
        ("cuda=cpu,capability=9.0a", "capability=9.0"),
    ],
)
def test_invalid_device_maps_are_errors(text: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        read_device_map(text)


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ("h100", "cuda=cpu,capability=9.0,sms=132"),
        ("NVIDIA A100", "cuda=cpu,capability=8.0,sms=108"),
        ("sm_90", "cuda=cpu,capability=9.0,sms=132"),
        ("sm_87", "cuda=cpu,capability=8.7"),  # the table has no such product
    ],
)
def test_the_map_of_a_gpu(gpu: str, expected: str) -> None:
    assert emulated_gpu(None, gpu) == expected
    assert str(read_device_map(expected)) == expected


def test_without_a_gpu_the_map_is_the_given_one() -> None:
    assert emulated_gpu("off", None) == "off"
    assert emulated_gpu(None, None) is None


@pytest.mark.parametrize(
    ("device_map", "gpu", "words"),
    [
        (None, "gfx942", "--gpu: gfx942 cannot be emulated"),
        (None, "h10", "--gpu: there is no GPU `h10`.*`h100`"),
        (
            "off",
            "h100",
            "one of them .*is equivalent to --device-map cuda=cpu,capability=9.0",
        ),
    ],
)
def test_gpus_that_are_refused(device_map: str | None, gpu: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        emulated_gpu(device_map, gpu, ("--device-map", "--gpu"))


def test_launch_rules_are_those_of_the_capability() -> None:
    assert launch_limits() == ANY_CUDA
    for capability, name in (((8, 0), "sm_80"), ((9, 0), "sm_90")):
        describe(DeviceMap(capability=capability))
        try:
            assert launch_limits() == limits_of(read_target(name))
        finally:
            forget()


def test_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert requested() is None
    monkeypatch.setenv(VARIABLE, "off")
    assert requested() is None
    monkeypatch.setenv(VARIABLE, "cuda=cpu,sms=4")
    assert requested() == DeviceMap(sms=4)
    monkeypatch.setenv(VARIABLE, "cuda")
    with pytest.raises(UsageError, match="TTOOLS_DEVICE_MAP: the device map `cuda` is neither"):
        requested()


@without_gpu
def test_scripts_see_the_requested_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with map_devices(DeviceMap(capability=(9, 0), sms=132)):
        properties: Any = torch.cuda.get_device_properties(0)
        assert torch.cuda.get_device_capability() == (properties.major, properties.minor) == (9, 0)
        assert properties.multi_processor_count == 132
        assert properties.shared_memory_per_block_optin == 232448
        assert torch.cuda.get_arch_list() == ["sm_90"]
        with map_devices({"cuda": "cpu"}):
            assert torch.cuda.get_device_capability() == (9, 0)
        with (
            pytest.raises(UsageError, match=r"cannot enter the device map `cuda=cpu,sms=4`"),
            map_devices(DeviceMap(sms=4)),
        ):
            pass
    with map_devices(DeviceMap()):
        assert torch.cuda.get_device_capability() == (8, 0)


# ---- child processes of a mapped process

_PARENT = """
import multiprocessing, subprocess, sys
import torch, triton
import triton.language as tl

@triton.jit
def add_one(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, offsets < n)
    tl.store(x_ptr + offsets, x + 1, offsets < n)

def child(queue):
    x = torch.ones(2, device="cuda")
    add_one[(1,)](x, 2, 16)
    queue.put((str(x.device), x.tolist(), torch.cuda.get_device_capability()))

def receiver(tensor, queue):
    tensor += 1
    queue.put((str(tensor.device), tensor.sum().item()))

if __name__ == "__main__":
    for how in ("fork", "spawn", "forkserver"):
        context = multiprocessing.get_context(how)
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        print(how, *queue.get(timeout=60))
        process.join()
    x = torch.ones(3, device="cuda")
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=receiver, args=(x, queue))
    process.start()
    print("sent", *queue.get(timeout=60), x.sum().item())
    process.join()
    code = "import triton, torch; print(torch.ones(2, device='cuda').device)"
    print("subprocess", subprocess.check_output([sys.executable, "-c", code], text=True).strip())
"""


@pytest.mark.slow
@without_gpu
def test_children_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "parent.py").write_text(_PARENT)
    monkeypatch.setenv(VARIABLE, "cuda=cpu,capability=9.0")
    completed = subprocess.run(
        [sys.executable, str(tmp_path / "parent.py")],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.splitlines() == [
        *(f"{how} cuda:0 [2.0, 2.0] (9, 0)" for how in ("fork", "spawn", "forkserver")),
        "sent cuda:0 6.0 6.0",
        "subprocess cuda:0",
    ]


def test_an_invalid_variable_prints_an_error_and_is_ignored() -> None:
    code = "import triton, torch; print(torch.cuda.is_available())"
    completed = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, VARIABLE: "cpu"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert completed.stdout == f"{torch.cuda.is_available()}\n"
    assert "error: TTOOLS_DEVICE_MAP: the device map `cpu`" in completed.stderr
    assert "Traceback" not in completed.stderr
