"""Tests, on a machine with a GPU, of the CPU sanitizer with kernels launched on CUDA tensors."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from ttools.sanitizer import sanitize  # noqa: E402

pytestmark = pytest.mark.gpu
N = 1000


@triton.jit
def add_one_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(out_ptr + offs, x + 1, mask=offs < n)


@triton.jit
def collide_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs) + tl.program_id(0))


def test_findings_name_cuda_tensors_and_outputs_are_correct() -> None:
    x = torch.arange(N, dtype=torch.float32, device="cuda")
    out = torch.full_like(x, -1)
    with sanitize() as report:
        add_one_kernel[(8,)](x, out, N, BLOCK=128)
    (finding,) = report.findings
    assert (finding.kind, finding.program, finding.lane) == ("oob_load", (7, 0, 0), (104,))
    assert finding.argument is not None
    assert (finding.argument.name, finding.argument.shape) == ("x_ptr", (N,))
    assert finding.argument.tensor is not None
    assert finding.argument.tensor.storage_bytes == 4 * N
    assert (out == x + 1).all()


def test_slices_keep_their_storage() -> None:
    x = torch.zeros(N, device="cuda")
    with sanitize() as report:
        add_one_kernel[(1,)](x[100:], torch.empty(512, device="cuda"), 512, BLOCK=512)
        assert report.findings == []
        add_one_kernel[(1,)](x[600:], torch.empty(512, device="cuda"), 512, BLOCK=512)
    (finding,) = report.findings
    assert finding.argument.tensor is not None
    offset = finding.argument.tensor.element_offset
    assert (finding.kind, offset, finding.lane) == ("oob_load", 600, (400,))


def test_uninitialised_memory() -> None:
    with sanitize() as report:
        x, out = torch.empty(N, device="cuda"), torch.zeros(N, device="cuda")
        add_one_kernel[(7,)](x, out, N, BLOCK=128)
    assert {finding.kind for finding in report.findings} == {"uninit_read"}


def test_races_between_programs() -> None:
    x, out = torch.zeros(64, device="cuda"), torch.zeros(64, device="cuda")
    with sanitize() as report:
        collide_kernel[(4,)](x, out, BLOCK=64)
    (finding,) = report.findings
    assert (finding.kind, finding.argument.name) == ("overlapping_store", "out_ptr")


@triton.jit
def masked_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) + 1.0, mask=offs < n)


def test_partly_written_outputs() -> None:
    """Launch a grid that is rounded down; the host reads the whole output or its written part."""
    for programs, read in ((7, N), (7, 7 * 128), (8, N)):
        with sanitize() as report:
            x, out = torch.ones(N, device="cuda"), torch.empty(N, device="cuda")
            masked_kernel[(programs,)](x, out, N, BLOCK=128)
            assert out[:read].sum().item() != 0
        findings = [(f.kind, f.argument.name) for f in report.findings if f.argument]
        expected = [("unwritten_output", "out_ptr")] if (programs, read) == (7, N) else []
        assert findings == expected
        assert report.warnings == []


def test_memory_written_by_operators() -> None:
    with sanitize() as report:
        x, out = torch.empty(N, device="cuda"), torch.empty(N, device="cuda")
        x.normal_()
        masked_kernel[(8,)](x, out, N, BLOCK=128)
        y = torch.randn(N, device="cuda") @ torch.randn(N, N, device="cuda")
        masked_kernel[(8,)](y, x, N, BLOCK=128)
        assert torch.isfinite(out + x).all()
    assert report.findings == []
    assert report.warnings == []
