"""Tests on a machine with a GPU that `interpret()` computes the GPU's results on CUDA tensors.

Each example runs on the GPU and in the interpreter. It checks both results against torch, and the
test compares them with each other.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Literal

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from ttools.core.errors import KernelError, UnsupportedError  # noqa: E402
from ttools.interpreter import interpret  # noqa: E402

pytestmark = pytest.mark.gpu

Engine = Literal["native", "eager"]
EXAMPLES = sorted(Path(__file__).parents[2].joinpath("examples").glob("*.py"))
# Tensor cores add with fewer bits than the engine, above all for 8-bit floats.
TOLERANCES = {
    torch.float64: (1e-12, 1e-12),
    torch.float32: (2e-2, 2e-2),
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (2e-2, 2e-2),
}


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


each_engine = pytest.mark.parametrize("engine", ["native", "eager"])


@each_engine
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_example_equals_the_gpu(path: Path, engine: Engine) -> None:
    if path.stem == "liger":
        pytest.importorskip("liger_kernel")
    module = load(path)
    torch.manual_seed(0)
    on_gpu = module.main()
    torch.manual_seed(0)
    with interpret(engine=engine) as run:
        interpreted = module.main()
    assert sum(s.launches for s in run.stats) > 0
    assert on_gpu.keys() == interpreted.keys()
    for name, expected in on_gpu.items():
        actual = interpreted[name]
        assert actual.device.type == "cuda", name
        rtol, atol = TOLERANCES.get(expected.dtype, (0, 0))
        torch.testing.assert_close(
            actual, expected, rtol=rtol, atol=atol, msg=lambda m, n=name: f"{n}: {m}"
        )


@triton.jit
def add_one_kernel(x_ptr, n, stride, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i * stride, mask=i < n)
    tl.store(x_ptr + i * stride, x + 1, mask=i < n)


@triton.jit
def double_kernel(x_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)


@each_engine
def test_only_the_view_of_a_cuda_tensor_is_written(engine: Engine) -> None:
    storage = torch.arange(100.0, device="cuda")
    before = storage.clone()
    view = storage[3:90:7]
    with interpret(engine=engine):
        add_one_kernel[(2,)](view, view.numel(), view.stride(0), BLOCK=8)
    before[3:90:7] += 1
    torch.testing.assert_close(storage, before, rtol=0, atol=0)


def test_excluded_kernels_run_on_the_gpu() -> None:
    x = torch.ones(64, device="cuda")
    with interpret(only=["add_one_kernel"]) as run:
        add_one_kernel[(1,)](x, 64, 1, BLOCK=64)
        double_kernel[(1,)](x, 64, BLOCK=64)
    assert [s.kernel for s in run.stats] == ["add_one_kernel"]
    assert (x == 4).all()
    add_one_kernel[(1,)](x, 64, 1, BLOCK=64)
    assert (x == 5).all()


@triton.jit
def through_table_kernel(table_ptr, BLOCK: tl.constexpr):
    x_ptr = tl.load(table_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i) + 1)


@each_engine
def test_pointers_in_cuda_memory_are_dereferenced(engine: Engine) -> None:
    tensors = [torch.full((32,), float(n), device="cuda") for n in range(3)]
    with interpret(engine=engine):
        table = torch.tensor([t.data_ptr() for t in tensors], device="cuda")
        through_table_kernel[(3,)](table, BLOCK=32)
    for n, tensor in enumerate(tensors):
        assert (tensor == n + 1).all()


@each_engine
def test_launches_captured_for_a_cuda_graph_are_errors(engine: Engine) -> None:
    x = torch.zeros(16, device="cuda")
    graph = torch.cuda.CUDAGraph()
    refusal = pytest.raises(UnsupportedError, match="CUDA graph")
    with interpret(engine=engine), refusal as refused, torch.cuda.graph(graph):
        double_kernel[(1,)](x, 16, BLOCK=16)
    assert "--device-map cuda=cpu" in str(refused.value)


@each_engine
def test_an_address_outside_of_all_tensors_is_reported(engine: Engine) -> None:
    table = torch.tensor([64], device="cuda")
    text = r"does not belong to a (live )?tensor"
    with interpret(engine=engine), pytest.raises(KernelError, match=text):
        through_table_kernel[(1,)](table, BLOCK=32)


def test_autotuning_does_not_mix_devices() -> None:
    tuned = triton.autotune([triton.Config({"BLOCK": b}) for b in (32, 64)], key=["n"])(
        double_kernel
    )
    x = torch.ones(64, device="cuda")
    tuned[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](x, 64)
    on_gpu = dict(tuned.cache)
    with interpret():
        tuned[lambda meta: (triton.cdiv(64, meta["BLOCK"]),)](x, 64)
    assert tuned.cache == on_gpu
