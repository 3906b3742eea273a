"""Tests that launches recorded on a GPU compute the same results when they are replayed."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.terminal import Terminal, ttools

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

import triton  # noqa: E402
import triton.language as tl  # noqa: E402

from ttools.core.records.reading import read_record  # noqa: E402
from ttools.core.spec import TensorSpec  # noqa: E402
from ttools.interpreter.records.launch_recorder import record  # noqa: E402
from ttools.interpreter.records.replay import replay  # noqa: E402
from ttools.sanitizer import sanitize  # noqa: E402

pytestmark = pytest.mark.gpu


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, stride, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets * stride, mask=offsets < n)
    y = tl.load(y_ptr + offsets, mask=offsets < n + 1)
    tl.store(out_ptr + offsets, x + y, mask=offsets < n)


def test_views_of_cuda_memory(tmp_path: Path) -> None:
    memory = torch.randn(1000, 3, device="cuda")
    y = torch.randn(1000, device="cuda")
    out = torch.zeros(1000, device="cuda")
    before = memory.clone(), y.clone()
    with record(tmp_path / "a.tt") as recorder:
        add_kernel[(4,)](memory[:, 1], y, out, 1000, 3, BLOCK=256)
        add_kernel[(4,)](memory[:, 2], y, out, 1000, 3, BLOCK=256)
    assert (recorder.recorded, recorder.seen) == (1, 2)
    assert torch.equal(out, before[0][:, 2] + before[1])  # the kernel ran on the GPU
    assert torch.equal(memory, before[0])
    (replayed,) = replay(tmp_path / "a.tt")
    expected = (before[0][:, 1] + before[1]).cpu()
    assert torch.equal(torch.from_numpy(replayed.tensors["out_ptr"]), expected)
    view = replayed.launch.spec.arguments[0].value
    assert isinstance(view, TensorSpec)
    assert (view.shape, view.strides, view.offset) == ((1000,), (3,), 4)
    assert read_record(tmp_path / "a.tt").made_by["on"] == torch.cuda.get_device_name()
    with sanitize() as report:
        replay(tmp_path / "a.tt")
    (finding,) = report.findings
    assert finding.kind == "oob_load"
    assert finding.argument is not None
    assert finding.argument.name == "y_ptr"
    assert finding.program == (3, 0, 0)


def test_autotuned_on_the_gpu(tmp_path: Path) -> None:
    @triton.autotune([triton.Config({"BLOCK": 128}), triton.Config({"BLOCK": 256})], key=["n"])
    @triton.jit
    def double_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + offsets, mask=offsets < n)
        tl.store(out_ptr + offsets, x * 2, mask=offsets < n)

    x = torch.randn(1000, device="cuda", dtype=torch.bfloat16)
    out = torch.empty_like(x)
    with record(tmp_path / "a.tt", launches="0:") as recorder:
        double_kernel[lambda meta: (triton.cdiv(1000, meta["BLOCK"]),)](x, out, 1000)
    assert recorder.seen == 1
    (replayed,) = replay(tmp_path / "a.tt")
    assert replayed.launch.spec.site.config is not None
    assert replayed.launch.spec.site.config["BLOCK"] in (128, 256)
    assert replayed.tensors["out_ptr"].astype("float32").tolist() == out.float().tolist()


SCRIPT = """\
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + offsets, x, mask=offsets < n)


x = torch.arange(100, dtype=torch.float32, device="cuda")
out = torch.zeros(100, device="cuda")
kernel[(2,)](x, out, 100, BLOCK=64)
print("same", torch.equal(x, out))
"""


def test_the_debugger_at_a_finding_with_cuda_tensors(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    with Terminal(ttools("sanitize", "--pdb-on-finding", "script.py"), tmp_path) as terminal:
        assert "script.py(9)kernel()\n-> x = tl.load" in terminal.until("(Pdb) ")
        assert terminal.say("p tl.max(offsets, 0)") == "int32 127"
        assert terminal.say("p tl.load(x_ptr + 99)") == "fp32 99.0"
        output, status = terminal.finish("c")
        assert "same True" in output
        assert status == 1


def test_the_command_on_the_gpu(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    with Terminal(ttools("record", "--output", "a.tt", "script.py"), tmp_path) as terminal:
        output, status = terminal.finish("")
    assert "same True" in output
    assert "a.tt holds 1 of 1 launch," in output
    assert status == 0
    (tmp_path / "script.py").unlink()
    with Terminal(ttools("sanitize", "a.tt"), tmp_path) as terminal:
        output, status = terminal.finish("")
    assert "out-of-bounds load of 4 bytes from `x_ptr`" in output
    assert "9 |     x = tl.load(x_ptr + offsets)" in output
    assert status == 1
