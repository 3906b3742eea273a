"""Tests on a machine with a GPU that CUDA rejects exactly the launches that the rules reject.

Each case is just within a limit or just beyond it. The test launches it and compares the reaction
of CUDA and Triton with `ttools.core.gpus.launch_rules`. A rejected launch does not damage the CUDA
context, so all tests run in this process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.version.hip:
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from ttools.core.gpus.launch_rules import (  # noqa: E402
    ANY_CUDA,
    RULES,
    GpuNeeds,
    broken_rules,
    limits_of,
)
from ttools.core.gpus.targets import target_of_machine  # noqa: E402
from ttools.core.spec import memory_spec  # noqa: E402
from ttools.sanitizer.checks.memcheck import defects  # noqa: E402

pytestmark = pytest.mark.gpu
TARGET = target_of_machine()
if TARGET is None:
    pytest.skip("the limits of this GPU are not in the table", allow_module_level=True)
LIMITS = limits_of(TARGET)
HOPPER = torch.cuda.get_device_capability()[0] >= 9
needs_hopper = pytest.mark.skipif(
    not HOPPER, reason="needs clusters and tensor descriptors (Hopper or later)"
)


@triton.jit
def mark_kernel(out_ptr):
    first = (tl.program_id(0) == 0) & (tl.program_id(1) == 0) & (tl.program_id(2) == 0)
    tl.store(out_ptr, 1, mask=first)


@triton.jit
def copy_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs))


@triton.jit
def product_kernel(a_ptr, b_ptr, c_ptr, K, B: tl.constexpr, BK: tl.constexpr):
    r, c, k = tl.arange(0, B), tl.arange(0, B), tl.arange(0, BK)
    acc = tl.zeros([B, B], tl.float32)
    for k0 in range(0, K, BK):
        a = tl.load(a_ptr + r[:, None] * K + (k0 + k)[None, :])
        b = tl.load(b_ptr + (k0 + k)[:, None] * B + c[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + r[:, None] * B + c[None, :], acc)


@triton.jit
def load_block_kernel(descriptor, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    tile = descriptor.load([0, 0])
    r, c = tl.arange(0, ROWS), tl.arange(0, COLUMNS)
    tl.store(out_ptr + r[:, None] * COLUMNS + c[None, :], tile)


@triton.jit
def fill_rows_kernel(y_ptr, M, N, stride, B: tl.constexpr):
    rows = tl.make_tensor_descriptor(y_ptr, [M, N], [stride, 1], [B, B])
    rows.store([tl.program_id(0) * B, tl.program_id(1) * B], tl.full([B, B], 1, tl.int8))


def refusal(launch: Callable[[], Any]) -> str:
    """Return the error of a launch, or an empty string if it succeeds."""
    try:
        launch()
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - of any class of Triton's or torch's
        return f"{type(error).__name__}: {error}"
    return ""


def rules_broken(needs: GpuNeeds) -> set[str]:
    return {violation.rule for violation in broken_rules(needs, LIMITS)}


def test_the_gpu_has_the_limits_of_the_table() -> None:
    cuda, value, device = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_int()
    assert cuda.cuDeviceGet(ctypes.byref(device), torch.cuda.current_device()) == 0

    def attribute(number: int) -> int:
        assert cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device) == 0
        return value.value

    # Numbers of CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X and others in cuda.h.
    assert (attribute(5), attribute(6), attribute(7)) == LIMITS.grid == ANY_CUDA.grid
    assert attribute(1) == LIMITS.threads
    assert attribute(12) == LIMITS.registers
    assert attribute(97) == LIMITS.shared
    properties = triton.runtime.driver.active.utils.get_device_properties(device.value)
    assert properties["max_shared_mem"] == LIMITS.shared


#: Extents of a grid, and the names of the rules that it violates.
GRIDS = [
    ((1, 65535, 1), []),
    ((1, 65536, 1), ["grid"]),
    ((1, 1, 65535), []),
    ((1, 1, 65536), ["grid"]),
    ((2**31 - 1, 1, 1), []),
    ((2**31, 1, 1), ["grid", "programs"]),
    ((32768, 65535, 1), []),
    ((32769, 65535, 1), ["programs"]),
    ((1, 65535, 32769), ["programs"]),
]


@pytest.mark.parametrize(("grid", "expected"), GRIDS, ids=str)
def test_a_grid(grid: Sequence[int], expected: Sequence[str]) -> None:
    out = torch.zeros(1, dtype=torch.int32, device="cuda")
    error = refusal(lambda: mark_kernel[tuple(grid)](out, num_warps=1))
    assert rules_broken(GpuNeeds(grid=grid, threads=32)) == set(expected)
    assert bool(out.item()) is not bool(expected), error
    # If only the total number of programs is too large, Triton skips the launch without an error.
    assert bool(error) is ("grid" in expected), error


@pytest.mark.parametrize("grid", [(0, 1, 1), (1, 0, 1), (1, 1, 0), (-1, 1, 1)], ids=str)
def test_an_empty_grid_launches_nothing(grid: tuple[int, int, int]) -> None:
    out = torch.zeros(1, dtype=torch.int32, device="cuda")
    assert refusal(lambda: mark_kernel[grid](out)) == ""
    assert not out.item()


@pytest.mark.parametrize("warps", [1, 32, 64])
def test_threads(warps: int) -> None:
    out = torch.zeros(1, dtype=torch.int32, device="cuda")
    error = refusal(lambda: mark_kernel[(1,)](out, num_warps=warps))
    assert rules_broken(GpuNeeds(threads=32 * warps)) == ({"threads"} if warps > 32 else set())
    assert bool(out.item()) is (warps <= 32), error
    assert bool(error) is (warps > 32), error


@pytest.mark.parametrize("blocks", [1, 2, 8, 16, 32])
def test_clusters(blocks: int) -> None:
    x, out = torch.arange(1024.0, device="cuda"), torch.zeros(1024, device="cuda")
    error = refusal(lambda: copy_kernel[(1,)](x, out, BLOCK=1024, num_ctas=blocks))
    refuses = rules_broken(GpuNeeds(grid=(1, 1, 1), cluster=blocks)) != set()
    assert refuses is (blocks > (LIMITS.cluster or 1))
    assert torch.equal(out, x) is not refuses, error
    assert bool(error) is refuses, error


@needs_hopper
@pytest.mark.parametrize(("programs", "refuses"), [(2**30 - 1, False), (2**30, True)])
def test_axis_0_counts_blocks_of_clusters(programs: int, refuses: bool) -> None:
    out = torch.zeros(1, dtype=torch.int32, device="cuda")
    error = refusal(lambda: mark_kernel[(programs,)](out, num_warps=1, num_ctas=2))
    needs = GpuNeeds(grid=(programs, 1, 1), threads=32, cluster=2)
    assert rules_broken(needs) == ({"grid"} if refuses else set())
    assert bool(out.item()) is not refuses, error


def test_shared_memory() -> None:
    a = torch.randn(128, 1024, dtype=torch.float16, device="cuda")
    b = torch.randn(1024, 128, dtype=torch.float16, device="cuda")
    c = torch.empty(128, 128, device="cuda")
    outcomes = set()
    for stages in range(2, 12):
        options = {"B": 128, "BK": 64, "num_stages": stages, "num_warps": 8}
        compiled = product_kernel.warmup(a, b, c, 1024, grid=(1,), **options)
        shared = int(compiled.metadata.shared)
        refuses = rules_broken(GpuNeeds(shared=shared)) == {"shared_memory"}
        error = refusal(partial(product_kernel[(1,)], a, b, c, 1024, **options))
        assert ("shared memory" in error) is refuses, (shared, error)
        assert bool(error) is refuses, (shared, error)
        outcomes.add(refuses)
    assert outcomes == {False, True}


def test_tensors_of_the_host() -> None:
    out = torch.zeros(16, device="cuda")
    host = torch.arange(16.0)
    error = refusal(lambda: copy_kernel[(1,)](host, out, BLOCK=16))
    assert error.startswith("ValueError: Pointer argument")
    assert "cannot be accessed from Triton (cpu tensor?)" in error
    assert "cannot be accessed from Triton (cpu tensor?)" in RULES["pointer_device"].says
    assert refusal(lambda: copy_kernel[(1,)](host.pin_memory(), out, BLOCK=16)) == ""
    assert torch.equal(out.cpu(), host)
    # A tensor without elements is a null pointer. The grid is empty so that nothing writes to it.
    assert refusal(lambda: mark_kernel[(0,)](torch.empty(0))) == ""


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_tensors_of_another_gpu() -> None:
    other = torch.arange(16.0, device="cuda:1")
    out = torch.zeros(16, device="cuda:0")
    with torch.cuda.device(0):
        error = refusal(lambda: copy_kernel[(1,)](other, out, BLOCK=16))
    assert "cannot be accessed from Triton" in error


#: Changes of a valid descriptor of f16 elements, and whether CUDA accepts the result.
DESCRIPTORS: dict[str, tuple[dict[str, Any], bool]] = {
    "right": ({}, True),
    "base by 16 bytes": ({"offset": 8}, True),
    "base by 2 bytes": ({"offset": 1}, False),
    "base by 8 bytes": ({"offset": 4}, False),
    "stride of 16 bytes more": ({"strides": [72, 1]}, True),
    "stride of 2 bytes more": ({"strides": [65, 1]}, False),
    "stride of 8 bytes more": ({"strides": [68, 1]}, False),
    "stride of 0": ({"strides": [0, 1]}, True),
    "largest stride": ({"shape": [1, 64], "strides": [2**39 - 8, 1]}, True),
    "stride beyond the largest": ({"shape": [1, 64], "strides": [2**39, 1]}, False),
    "shape of 1": ({"shape": [1, 1]}, True),
    "shape of 0": ({"shape": [0, 64]}, False),
}


@needs_hopper
@pytest.mark.parametrize("name", DESCRIPTORS)
def test_descriptors(name: str) -> None:
    tensor_descriptor = pytest.importorskip("triton.tools.tensor_descriptor")
    changed, is_valid = DESCRIPTORS[name]
    memory = torch.randn(4096, device="cuda").half()
    out = torch.empty(8, 32, dtype=torch.float16, device="cuda")
    descriptor = tensor_descriptor.TensorDescriptor.from_tensor(memory[:1024].view(16, 64), [8, 32])
    # The fields are set afterwards because Triton's constructor would reject some of them.
    descriptor.base = memory[changed.get("offset", 0) :][:1024].view(16, 64)
    descriptor.shape = changed.get("shape", descriptor.shape)
    descriptor.strides = changed.get("strides", descriptor.strides)
    error = refusal(lambda: load_block_kernel[(1,)](descriptor, out, ROWS=8, COLUMNS=32))
    spec = memory_spec(descriptor.base)
    assert spec is not None
    spec = replace(spec, shape=tuple(descriptor.shape), strides=tuple(descriptor.strides))
    assert (list(defects(spec, [8, 32])) == []) is is_valid
    assert (error == "") is is_valid, error


@needs_hopper
@pytest.mark.parametrize(("columns", "is_valid"), [(8, True), (4, False)])
def test_rows_of_a_block_have_at_least_16_bytes(columns: int, is_valid: bool) -> None:
    tensor_descriptor = pytest.importorskip("triton.tools.tensor_descriptor")
    memory = torch.randn(16, 64, device="cuda").half()
    out = torch.empty(8, columns, dtype=torch.float16, device="cuda")

    def launch() -> None:
        descriptor = tensor_descriptor.TensorDescriptor.from_tensor(memory, [8, columns])
        load_block_kernel[(1,)](descriptor, out, ROWS=8, COLUMNS=columns)

    spec = memory_spec(memory)
    assert spec is not None
    assert (list(defects(spec, [8, columns])) == []) is is_valid
    assert (refusal(launch) == "") is is_valid


@needs_hopper
@pytest.mark.parametrize(("columns", "end"), [(464, 464), (466, 480)])
def test_descriptor_stores_write_up_to_a_multiple_of_16_bytes(columns: int, end: int) -> None:
    """Check the basis of the warning about descriptors that store beyond their last extent."""
    triton.set_allocator(
        lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda")
    )
    memory = torch.zeros(32, 512, dtype=torch.int8, device="cuda")
    fill_rows_kernel[(1, 15)](memory[:, :columns], 32, columns, 512, B=32)
    written = (memory != 0).all(0).nonzero().flatten()
    assert int(written[-1]) + 1 == end
