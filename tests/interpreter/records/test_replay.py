"""Tests of recording and replaying launches: views, aliases, types and untrusted records."""

from __future__ import annotations

import ctypes
import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec.structs
import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from ttools.core import location
from ttools.core.errors import UsageError
from ttools.core.records.launch_record import Record
from ttools.core.records.reading import read_record
from ttools.core.records.writing import write_record
from ttools.core.spec import ArgumentSpec, TensorSpec
from ttools.interpreter import interpret
from ttools.interpreter.records.launch_recorder import record
from ttools.interpreter.records.replay import Replayed, replay


@triton.jit
def shift(x_ptr, out_ptr, bias, n, stride, flag, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    x = tl.load(x_ptr + offsets * stride, mask=inside).to(tl.float32)
    if bias is not None:
        x += tl.load(bias)
    if flag:
        x = -x
    tl.store(out_ptr + offsets, x, mask=inside)


def replay_one(path: Path) -> Replayed:
    (replayed,) = replay(path)
    return replayed


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.float8_e5m2])
def test_strided_views_and_null_pointers(tmp_path: Path, dtype: torch.dtype) -> None:
    x = torch.arange(40).to(torch.float32).to(dtype).reshape(8, 5)[:, 3]
    out = torch.zeros(12)[2:10]
    with record(tmp_path / "a.tt") as recorder:
        shift[(2,)](x, out, None, 8, x.stride(0), True, BLOCK=4)
    assert recorder.recorded == recorder.seen == 1
    assert torch.equal(out, -x.float())  # the recorded launch ran
    replayed = replay_one(tmp_path / "a.tt")
    assert replayed.tensors["out_ptr"].tolist() == out.tolist()
    assert replayed.tensors["x_ptr"].astype(np.float32).tolist() == x.float().tolist()
    parameters = {argument.name: argument.value for argument in replayed.launch.spec.arguments}
    view = parameters["x_ptr"]
    assert isinstance(view, TensorSpec)
    assert (view.shape, view.strides, view.offset) == ((8,), (5,), 3 * x.element_size())
    assert parameters["flag"] is True
    assert replayed.launch.specialisation["BLOCK"] == "constant 4"


@triton.jit
def fill_next(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.debug_barrier()
    tl.store(y_ptr + offsets, x + 1, mask=offsets < n)


def test_aliases_are_preserved(tmp_path: Path) -> None:
    memory = torch.arange(10.0)
    with record(tmp_path / "a.tt"):
        fill_next[(1,)](memory[:8], memory[2:], 8, BLOCK=8)
    record_ = read_record(tmp_path / "a.tt")
    assert len(record_.storages) == 1
    replayed = replay_one(tmp_path / "a.tt")
    assert replayed.tensors["x_ptr"].tolist() == memory[:8].tolist()
    assert replayed.tensors["y_ptr"].tolist() == memory[2:].tolist()


def test_numbers_keep_every_bit(tmp_path: Path) -> None:
    @triton.jit
    def number(out_ptr, f, i):
        tl.store(out_ptr, f)
        tl.store(out_ptr + 1, i.to(tl.float64))

    out = torch.zeros(2, dtype=torch.float64)
    with record(tmp_path / "a.tt"):
        number[(1,)](out, float("inf"), 2**62 + 1)
    values = [argument.value for argument in replay_one(tmp_path / "a.tt").launch.spec.arguments]
    assert values[1:] == [float("inf"), 2**62 + 1]


def test_selection_of_launches(tmp_path: Path) -> None:
    def program() -> None:
        for n in range(1, 5):
            fill_next[(1,)](torch.arange(8.0), torch.zeros(8), n, BLOCK=8)

    def recorded(**choice: Any) -> list[object]:
        with record(tmp_path / "a.tt", **choice) as recorder:
            program()
        assert recorder.seen == 4
        launches = read_record(tmp_path / "a.tt").launches
        # Triton makes an argument of 1 a constant.
        return [{p.name: p.value for p in launch.spec.arguments}.get("n", 1) for launch in launches]

    assert recorded() == [1]
    assert recorded(launches="1,3") == [2, 4]
    assert recorded(launches="2:") == [3, 4]
    assert recorded(launches="0:2", only=["fill_next"]) == [1, 2]
    with record(tmp_path / "none.tt", only=["other"]) as recorder:
        program()
    assert recorder.seen == 0
    assert not (tmp_path / "none.tt").exists()
    with pytest.raises(UsageError, match="`last` is neither a number nor a range"):
        record(tmp_path / "a.tt", launches="last")


def test_generated_numbers_replace_data(tmp_path: Path) -> None:
    @triton.jit
    def gather(x_ptr, index_ptr, out_ptr, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out_ptr + offsets, tl.load(x_ptr + tl.load(index_ptr + offsets)))

    x = torch.randn(4096) * 3 + 10
    index = torch.randint(5, 4000, (4096,))
    with record(tmp_path / "a.tt", data="seed") as recorder:
        gather[(4,)](x, index, torch.zeros(4096), BLOCK=1024)
    assert recorder.notes == ["`gather`: memory is recorded as similar random numbers (see --data)"]
    assert (tmp_path / "a.tt").stat().st_size < 10_000
    tensors = replay_one(tmp_path / "a.tt").tensors
    assert abs(float(tensors["x_ptr"].mean()) - 10) < 0.5
    assert abs(float(tensors["x_ptr"].std()) - 3) < 0.5
    low, high = int(tensors["index_ptr"].min()), int(tensors["index_ptr"].max())
    assert int(index.min()) <= low < high <= int(index.max())
    expected = tensors["x_ptr"][tensors["index_ptr"]]
    assert np.array_equal(tensors["out_ptr"], expected)
    # Every replay uses the same numbers.
    assert np.array_equal(replay_one(tmp_path / "a.tt").tensors["out_ptr"], tensors["out_ptr"])


def test_autotuned_kernels_are_recorded_with_their_configuration(tmp_path: Path) -> None:
    @triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32})], key=["n"])
    @triton.jit
    def tuned(x_ptr, n, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + offsets, offsets, mask=offsets < n)

    x = torch.zeros(50)
    with record(tmp_path / "a.tt", launches="0:") as recorder:
        tuned[lambda meta: (triton.cdiv(50, meta["BLOCK"]),)](x, 50)
    assert recorder.seen == 1
    replayed = replay_one(tmp_path / "a.tt")
    assert replayed.launch.spec.site.config is not None
    assert replayed.launch.spec.site.config["BLOCK"] in (16, 32)
    assert replayed.tensors["x_ptr"].tolist() == list(range(50))


def test_descriptors(tmp_path: Path) -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    @triton.jit
    def copy(x_desc, out_ptr, BLOCK: tl.constexpr):
        x = x_desc.load([0, 4])
        rows, columns = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
        tl.store(out_ptr + rows * BLOCK + columns, x)

    x, out = torch.randn(8, 8), torch.zeros(8, 8)
    with record(tmp_path / "a.tt"):
        copy[(1,)](TensorDescriptor.from_tensor(x, [8, 8]), out, BLOCK=8)
    assert replay_one(tmp_path / "a.tt").tensors["out_ptr"].tolist() == out.tolist()


def test_unrecordable_launches_are_errors(tmp_path: Path) -> None:
    @triton.jit
    def through_table(table_ptr, out_ptr):
        x_ptr = tl.load(table_ptr).to(tl.pointer_type(tl.float32))
        tl.store(out_ptr, tl.load(x_ptr))

    x, out = torch.ones(4), torch.zeros(1)
    with record(tmp_path / "a.tt") as recorder:
        through_table[(1,)](torch.tensor([x.data_ptr()]), out)
    assert recorder.notes == [
        (
            "`through_table` is not recorded: it loads addresses from memory, which are valid only "
            "in this process"
        )
    ]
    assert float(out) == 1.0


def test_sources_in_a_record_do_not_replace_those_of_the_process(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(location, "_RECORDED_LINES", {})
    write_record(replace(read_record(file), excerpts=()), file)
    replay(file)
    assert location.source_lines(__file__) == [], "a report can show only lines in the record"
    assert inspect.getsource(fill_next.fn).startswith("@triton.jit")
    assert triton.jit(fill_next.fn).raw_src == fill_next.raw_src


# ---- untrusted records


@pytest.fixture
def file(tmp_path: Path) -> Path:
    with record(tmp_path / "a.tt"):
        fill_next[(1,)](torch.arange(8.0), torch.zeros(8), 6, BLOCK=8)
    return tmp_path / "a.tt"


def changed(path: Path, ttir: str | None = None, **values: Any) -> Path:
    original = read_record(path)
    (launch,) = original.launches
    spec = msgspec.structs.replace(launch.spec, **values)
    launch = replace(launch, spec=spec, ttir=launch.ttir if ttir is None else ttir)
    write_record(Record(launches=(launch,), storages=original.storages), path)
    return path


def test_untrusted_kernels_cannot_access_other_memory(file: Path) -> None:
    victim = np.zeros(4, np.int32)
    address = victim.ctypes.data
    ttir = f"""
module {{
  tt.func public @evil(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %n: i32) {{
    %one = arith.constant 77 : i32
    %number = arith.constant {address} : i64
    %where = tt.int_to_ptr %number : i64 -> !tt.ptr<i32>
    tt.store %where, %one : !tt.ptr<i32>
    %far = arith.constant 1000000 : i32
    %beyond = tt.addptr %y, %far : !tt.ptr<f32>, i32
    %zero = arith.constant 0.0 : f32
    tt.store %beyond, %zero : !tt.ptr<f32>
    tt.return
  }}
}}
"""
    changed(file, ttir=ttir, kernel="evil")
    with interpret() as run:
        replay(file)
    assert victim.tolist() == [0] * 4
    assert [(skipped.kernel, skipped.kind, skipped.lanes) for skipped in run.skipped] == [
        ("evil", "store", 1)
    ] * 2
    from ttools.profiler import profile

    with profile(on="cpu"):
        replay(file)
    assert victim.tolist() == [0] * 4
    assert ctypes.c_int32.from_address(address).value == 0


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"ttir": "module {"}, "a.tt"),
        ({"ttir": "module {}"}, "expected `tt.func`"),
        (
            {"ttir": "module { tt.func private @k() { tt.return } }"},
            "not TTIR in the form that Triton writes",
        ),
        ({"ttir": "module { tt.func public @k() { tt.return } }"}, "do not match the recorded"),
        ({"arguments": (ArgumentSpec(name="a", type="i7", value=1),)}, "can have type i7"),
        ({"arguments": ()}, "parameters do not match the recorded arguments"),
    ],
)
def test_invalid_kernels_are_errors(file: Path, values: dict[str, Any], sentence: str) -> None:
    from ttools.core.errors import TtoolsError

    changed(file, **values)
    with pytest.raises(TtoolsError) as caught:
        replay(file)
    assert sentence in str(caught.value)
