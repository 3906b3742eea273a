"""Workers that only compile for a GPU: the same binaries as with torch, without importing it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st
from triton.tools.tensor_descriptor import TensorDescriptor

from ttools.core import triton_versions
from ttools.core.gpus.targets import read_target
from ttools.core.spec import memory_spec
from ttools.tuner.measure.checks import Checks
from ttools.tuner.measure.gpu_bench import GpuBench
from ttools.tuner.measure.gpu_launch import GpuTunedCall, gpu_launch
from ttools.tuner.measure.measuring import Measuring
from ttools.tuner.space.candidate import candidates
from ttools.tuner.workers.fake_tensor import FakeTensor
from ttools.tuner.workers.fork_server import ForkServer
from ttools.tuner.workers.serialized_launch import serialize
from ttools.tuner.workers.serving import Answer, Opening, Request
from ttools.tuner.workers.target_driver import compile_for_target
from ttools.tuner.workers.worker_slot import WorkerSlot

HOPPER = read_target("sm_90").gpu_target()


# Part of a module that imports torch; pickle refers to it by name, so that workers import it.
def of_half(arguments: dict[str, Any]) -> bool:
    import torch

    return bool(arguments["x_ptr"].dtype == torch.float16)


@triton.heuristics({"EVEN": lambda args: args["x_ptr"].numel() % args["BLOCK"] == 0})
@triton.jit
def scale_kernel(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = (offs >= 0) if EVEN else (offs < n)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=mask) * factor, mask=mask)


@triton.heuristics({"HALF": of_half})
@triton.jit
def torch_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr, HALF: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs) * (2 if HALF else 3))


@triton.jit
def descriptor_kernel(x_desc, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    block = tl.reshape(x_desc.load([0, 0]), (BLOCK,))
    tl.store(out_ptr + offs, block)


def launch_of(kernel: Any, block: int, **arguments: Any) -> GpuTunedCall:
    def set_block(arguments: dict[str, Any]) -> None:
        arguments["out_ptr"].zero_()
        if "x_desc" in arguments:
            arguments["x_desc"].block_shape = [1, arguments["BLOCK"]]

    config = triton.Config({"BLOCK": block}, num_warps=2, pre_hook=set_block)
    arguments = {"grid": (3,), **arguments}
    return gpu_launch(triton.autotune([config], key=[])(kernel), (), arguments)


def aligned() -> GpuTunedCall:
    return launch_of(
        scale_kernel, 64, x_ptr=torch.ones(256).half(), out_ptr=torch.ones(256), n=256, factor=0.5
    )


def misaligned() -> GpuTunedCall:
    x, out = torch.ones(255), torch.ones(255, dtype=torch.bfloat16)
    return launch_of(scale_kernel, 64, x_ptr=x[1:], out_ptr=out, n=254, factor=1)


def described() -> GpuTunedCall:
    x = TensorDescriptor.from_tensor(torch.ones(4, 128), [1, 16])
    return launch_of(descriptor_kernel, 128, x_desc=x, out_ptr=torch.ones(128))


def asking_torch() -> GpuTunedCall:
    x = torch.ones(64).half()
    return launch_of(torch_kernel, 64, x_ptr=x, out_ptr=x.clone())


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    fork_server = ForkServer(kind="compile")
    yield fork_server
    fork_server.close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set Triton's cache folder of this process and of the workers that get it, and return it."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    return tmp_path


def compiled(slot: WorkerSlot, launch: GpuTunedCall) -> Answer:
    """Return the answer of a worker to a request to compile the only configuration."""
    opening = Opening(
        launch=serialize(launch).without_contents(),
        measuring=Measuring(on_gpu=True),
        threads=1,
        compiles_only=True,
        target=HOPPER,
    )
    assert slot.ask(opening, 120.0).error is None
    (only,) = candidates(launch.configs)
    return slot.ask(Request("compile", (only.key,)), 120.0)


def has_torch(slot: WorkerSlot) -> bool:
    assert slot._worker is not None
    return "libtorch" in Path(f"/proc/{slot._worker.pid}/maps").read_text()


@pytest.mark.parametrize(
    ("make", "wants_torch"),
    [
        (aligned, False),
        pytest.param(misaligned, False, marks=pytest.mark.slow),
        pytest.param(described, False, marks=pytest.mark.slow),
        (asking_torch, True),
    ],
    ids=["aligned", "misaligned", "described", "asking_torch"],
)
def test_binaries_are_those_of_a_process_with_torch(
    cache: Path, make: Callable[[], GpuTunedCall], wants_torch: bool
) -> None:
    server = ForkServer(kind="compile")  # started after the cache folder is set
    try:
        slot = WorkerSlot(server)
        launch = make()
        answer = compiled(slot, launch)
        assert answer.error is None
        assert has_torch(slot) == wants_torch
    finally:
        server.close()
    binaries = sorted(cache.glob("*/*.cubin"))
    assert len(binaries) == 1
    before = triton_versions.active_driver()
    compile_for_target(HOPPER)
    try:
        (only,) = candidates(launch.configs)
        facts = GpuBench(launch, Checks()).compile(only)
    finally:
        triton_versions.driver_config().set_active(before)
    assert sorted(cache.glob("*/*.cubin")) == binaries, "the binary is in the cache"
    assert answer.value == {only.key: facts}


@pytest.mark.slow
def test_a_refused_configuration_does_not_import_torch(server: ForkServer) -> None:
    slot = WorkerSlot(server)
    x = torch.ones(64)
    answer = compiled(slot, launch_of(scale_kernel, 48, x_ptr=x, out_ptr=x, n=64, factor=1.0))
    assert "power of 2" in str(answer.error)
    assert not has_torch(slot)
    again = compiled(slot, aligned())
    assert again.error is None, "the worker continues"


@settings(max_examples=30)
@given(
    st.integers(0, 5),
    st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), min_size=1, max_size=3),
    st.sampled_from([torch.float32, torch.int8, torch.bfloat16, torch.float8_e4m3fn]),
)
def test_a_fake_tensor_has_the_properties_of_a_real_one(
    offset: int, sizes: list[tuple[int, int]], dtype: torch.dtype
) -> None:
    base = torch.zeros(64, dtype=torch.uint8).to(dtype)
    shape, strides = zip(*sizes, strict=True)
    real = base.as_strided(shape, strides, offset)
    spec = memory_spec(real)
    assert spec is not None
    own = FakeTensor(spec)
    for name in ("size", "stride", "numel", "dim", "element_size", "storage_offset"):
        assert getattr(own, name)() == getattr(real, name)(), name
    assert (own.shape, own.ndim, len(own)) == (real.shape, real.ndim, len(real))
    assert (own.size(-1), own.stride(0)) == (real.size(-1), real.stride(0))
    assert str(own.dtype) == str(real.dtype)
    assert own.data_ptr() % 16 == (real.data_ptr() - base.data_ptr()) % 16
    assert own.ptr_range() == base.nbytes
    assert own.zero_() is own.fill_(1)


def test_a_run_on_a_gpu_starts_without_torch() -> None:
    """Start workers before torch is imported, so that they import modules meanwhile."""
    program = """
        import sys
        from ttools.tuner.options import TuneOptions
        from ttools.tuner import run
        run.gpu_usable = lambda: True
        with run.TuningRun(TuneOptions()):
            assert "torch" not in sys.modules
    """
    command = [sys.executable, "-c", textwrap.dedent(program)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
