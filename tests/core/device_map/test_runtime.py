"""Tests of functions of `torch.cuda` under a device map, without CUDA's libraries."""

from __future__ import annotations

import inspect
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from ttools.core.errors import UnsupportedError

pytestmark = pytest.mark.usefixtures("mapped")

#: Functions that also fail on machines with a GPU unless a program of NVIDIA's is installed.
NVIDIA = {
    *("temperature", "power_draw", "clock_rate", "memory_usage", "device_memory_used"),
    *("utilization", "list_gpu_processes"),
}


def functions_without_arguments() -> list[str]:
    """Return the functions of `torch.cuda` that can be called without arguments."""
    names = []
    for name in torch.cuda.__all__:
        function = getattr(torch.cuda, name)
        if inspect.isfunction(function) and name not in NVIDIA:
            parameters = inspect.signature(function).parameters.values()
            if all(p.default is not p.empty or p.kind > p.KEYWORD_ONLY - 1 for p in parameters):
                names.append(name)
    return names


def test_functions_without_arguments_work() -> None:
    functions = functions_without_arguments()
    assert len(functions) > 20
    for name in functions:
        if (
            "graph" not in name and name != "caching_allocator_enable"
        ):  # unsupported, and a context manager
            getattr(torch.cuda, name)()


def test_memory_is_that_of_the_process() -> None:
    statistics = torch.cuda.memory_stats()
    assert statistics["active_bytes.all.current"] > 0
    assert statistics["num_ooms"] == 0
    assert torch.accelerator.memory_stats().keys() == statistics.keys()
    assert "CUDA OOMs: 0" in torch.cuda.memory_summary()
    large = torch.ones(1 << 24, device="cuda")
    before = torch.cuda.max_memory_allocated()
    del large
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() < before - (1 << 25)
    with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
        assert torch.ones(2, device="cuda").is_cuda


def test_the_history_of_memory_is_empty(tmp_path: Path) -> None:
    memory: Any = torch.cuda.memory
    memory._record_memory_history(max_entries=100)
    memory._dump_snapshot(tmp_path / "snapshot.pickle")
    memory._record_memory_history(enabled=None)
    assert pickle.loads((tmp_path / "snapshot.pickle").read_bytes())["segments"] == []
    assert torch.cuda.memory_snapshot() == []


def test_out_of_memory() -> None:
    x = torch.ones(1, device="cuda", requires_grad=True)
    for allocate in (lambda: torch.empty(1 << 46, device="cuda"), lambda: x.expand(1 << 46) * 2):
        with pytest.raises(torch.cuda.OutOfMemoryError, match="CUDA out of memory"):
            allocate()


def test_functions_of_cuda_builds_are_unsupported() -> None:
    with pytest.raises(UnsupportedError, match="raw_alloc`, a function of CUDA builds"):
        torch.cuda.caching_allocator_alloc(16)
    assert not hasattr(torch._C, "_cuda_getDeviceCount")
    with pytest.raises(AttributeError, match="has no attribute '_other'"):
        getattr(torch._C, "_other")  # noqa: B009 - mypy would report the missing attribute
    # Every function that torch's Python code uses either exists or is reported as unsupported.
    for file in Path(torch.cuda.__file__).parent.glob("*.py"):
        for name in re.findall(r"_C\.(_cuda_\w+)", file.read_text("utf-8")):
            try:
                assert getattr(torch._C, name)
            except UnsupportedError as error:
                assert name in str(error)  # noqa: PT017 - both are correct


def test_the_runtime() -> None:
    runtime: Any = torch.cuda.cudart()
    host = torch.ones(3)
    torch.cuda.check_error(runtime.cudaHostRegister(host.data_ptr(), 12, 0))
    assert runtime.cudaMemGetInfo(0)[1] == torch.cuda.mem_get_info()[1]
    assert len(torch.cuda.nccl.version()) == 3
    assert isinstance(torch.cuda.get_device_properties(0), torch.cuda._CudaDeviceProperties)
    assert torch.backends.cuda.cufft_plan_cache.size == 0
    torch.backends.cuda.cufft_plan_cache.clear()
    with torch.autograd.profiler.emit_nvtx():
        torch.ones(2, device="cuda").sum()
    torch.cuda._sleep(1000)


def test_data_parallel_modules() -> None:
    module = torch.nn.Linear(3, 2).cuda()
    parallel = torch.nn.DataParallel(module, device_ids=[0])
    x = torch.arange(6.0).view(2, 3)
    torch.testing.assert_close(parallel(x), module(x.cuda()))
    copies = torch.nn.parallel.comm.broadcast_coalesced([x.cuda(), x.cuda() + 1], [0])
    assert [[part.sum().item() for part in replica] for replica in copies] == [[15.0, 21.0]]
    parts = torch.nn.parallel.scatter(x, [0, 0])
    assert [part.tolist() for part in parts] == [[[0, 1, 2]], [[3, 4, 5]]]
    assert torch.nn.parallel.gather(parts, 0).cpu().equal(x)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_draw_the_same_numbers_again(reentrant: bool) -> None:
    x = torch.ones(64, device="cuda", requires_grad=True)
    torch.manual_seed(0)
    y: Any = checkpoint(torch.nn.Dropout(0.5), x, use_reentrant=reentrant)
    torch.rand(3, device="cuda")
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.equal(y.detach())


def test_storages_can_be_freed_and_reallocated() -> None:
    x = torch.arange(4.0, device="cuda")
    storage = x.untyped_storage()
    storage.resize_(0)
    assert x.untyped_storage().size() == storage.nbytes() == 0
    storage.resize_(16)
    assert x.untyped_storage().size() == 16
    x.fill_(2)
    assert x.tolist() == [2.0] * 4
    with pytest.raises(UnsupportedError, match="from 16 to 32 bytes"):
        storage.resize_(32)
    assert torch.ones(2).untyped_storage().resize_(64).size() == 64


def test_only_host_memory_can_be_pinned() -> None:
    with pytest.raises(RuntimeError, match=r"cannot pin 'torch\.cuda\.FloatTensor'"):
        torch.ones(2, device="cuda").pin_memory()
    pinned = torch.ones(2).pin_memory()
    assert pinned.pin_memory() is pinned


class Wrapper(torch.Tensor):
    """A subclass of a tensor, like those of libraries, that contains another tensor."""

    content: torch.Tensor

    @staticmethod
    def __new__(cls, content: torch.Tensor) -> Any:
        make: Any = torch.Tensor._make_wrapper_subclass
        wrapped = make(cls, content.shape, dtype=content.dtype)
        wrapped.content = content
        return wrapped

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(args[0].content)
        return cls(result) if isinstance(result, torch.Tensor) else result


def test_wrapper_subclasses_pin_their_inner_tensor() -> None:
    wrapped: Any = Wrapper(torch.ones(3))
    assert not wrapped.is_pinned()
    pinned = wrapped.pin_memory()
    assert type(pinned) is Wrapper
    assert pinned.is_pinned()
    assert pinned.content.is_pinned()
    assert not wrapped.content.is_pinned()


def test_products_of_integers_resize_their_output() -> None:
    matrix = torch.arange(32 * 32, device="cuda").view(32, 32).to(torch.int8)
    out = torch.empty(0, dtype=torch.int32, device="cuda")
    torch._int_mm(matrix, matrix, out=out)
    assert out.cpu().equal(matrix.cpu().int() @ matrix.cpu().int())


@pytest.mark.filterwarnings("ignore:torch.set_default_tensor_type")
def test_default_tensor_types() -> None:
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
    assert torch.ones(1).is_cuda
    torch.set_default_tensor_type(torch.FloatTensor)
    assert not torch.ones(1).is_cuda


def test_random_state_inside_fake_tensors() -> None:
    state = torch.cuda.get_rng_state()
    with torch._subclasses.FakeTensorMode():
        torch.cuda.set_rng_state(state)
        assert type(torch.cuda.get_rng_state()) is torch.Tensor
    generator: Any = torch.cuda.default_generators[0]
    saved_state = generator.graphsafe_get_state()
    drawn = torch.rand(3, device="cuda")
    generator.graphsafe_set_state(saved_state)
    assert torch.rand(3, device="cuda").equal(drawn)
