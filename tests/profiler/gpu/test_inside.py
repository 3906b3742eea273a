"""Cycles inside kernels: the reader of Proton's traces, the report, and scopes of lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import triton
import triton.language as tl

from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError
from ttools.core.gpus.targets import read_target
from ttools.core.triton_versions import begin_compilation, kernel_scopes, missing_kernel_scopes
from ttools.profiler.gpu.inside import InsideSession, read_events
from ttools.profiler.report.inside import inside_report

#: Durations in cycles of the scopes `load` and `compute`, by launch, program, multiprocessor, warp.
_CYCLES = {
    (0, 0, 3, 0): (100, 300),
    (0, 0, 3, 1): (100, 500),
    (0, 1, 7, 0): (100, 1000),
    (0, 1, 7, 1): (100, 1200),
    (1, 0, 3, 0): (100, 400),
    (1, 0, 3, 1): (100, 400),
    (1, 1, 3, 0): (100, 400),
    (1, 1, 3, 1): (100, 400),
}


def _entry(
    name: str, program: int, core: int, warp: int, begin: int, cycles: int, start: int
) -> dict[str, Any]:
    """Return an entry as Proton writes it: times in microseconds at an assumed 1,000 MHz."""
    return {
        "cname": "rail_response",
        "name": name,
        "cat": "kernel",
        "ph": "X",
        "pid": f"kernel Core{core} CTA{program}",
        "tid": f"warp {warp} (line 0)",
        "ts": begin / 1000.0,
        "dur": cycles / 1000.0,
        "args": {
            "Init Time (ns)": start,
            "Post Final Time (ns)": start + 5000,
            "Finalization Time (ns)": 10,
            "Frequency (MHz)": 1000.0,
            "call_stack": ["ROOT", "kernel"],
        },
    }


def _entries() -> Iterator[dict[str, Any]]:
    for (launch, program, core, warp), (load, compute) in _CYCLES.items():
        start = 1_000_000 * (launch + 1) + program
        begin = 10_000 * launch
        yield _entry("load", program, core, warp, begin, load, start)
        yield _entry("compute", program, core, warp, begin + load, compute, start)


def _trace(entries: list[dict[str, Any]]) -> bytes:
    return json.dumps({"displayTimeUnit": "ns", "traceEvents": entries}).encode()


_OTHER_ENTRIES: list[dict[str, Any]] = [
    {"name": "kernel", "cat": "call_path", "ph": "X", "pid": "Kernel Call Path", "tid": "path 0",
     "ts": 0.0, "dur": 9.0, "args": {}},
    {"name": "copy", "cat": "flow", "ph": "X", "pid": "kernel Core3 CTA0", "tid": "warp 0 (line 0)",
     "ts": 0.0, "dur": 0, "bind_id": 1, "flow_out": True, "args": {}},
]  # fmt: skip


@pytest.mark.parametrize("has_start", [True, False], ids=["with_start", "as_triton_3.6"])
def test_events_of_all_launches_are_read(has_start: bool) -> None:
    entries = list(_entries())
    if not has_start:
        for entry in entries:
            del entry["args"]["Init Time (ns)"], entry["args"]["Post Final Time (ns)"]
    events = read_events(_trace([*_OTHER_ENTRIES, *entries]))
    read = {
        (event.launch, event.program, event.core, event.warp, event.scope): round(event.cycles)
        for event in events
    }
    expected = {
        (*key, name): cycles
        for key, pair in _CYCLES.items()
        for name, cycles in zip(("load", "compute"), pair, strict=True)
    }
    assert read == expected
    assert len(events) == len(expected)


def test_launches_of_one_program_are_distinguished_by_their_warps() -> None:
    entries = [
        _entry("load", 0, 3, warp, 1000 * launch, 100, 0) for launch in range(3) for warp in (0, 1)
    ]
    for entry in entries:
        del entry["args"]["Init Time (ns)"]
    assert [event.launch for event in read_events(_trace(entries))] == [0, 0, 1, 1, 2, 2]


def test_a_trace_of_several_streams_is_read() -> None:
    entries = list(_entries())
    parts = _trace(entries[:4]) + b"\n" + _trace(entries[4:])
    assert len(read_events(parts)) == len(entries)


@pytest.mark.parametrize("raw", [b"", b"\n"])
def test_an_empty_trace_has_no_events(raw: bytes) -> None:
    assert read_events(raw) == []
    assert inside_report([]).text() == ""


@pytest.mark.parametrize("raw", [b"{", b"[]", b'{"traceEvents": [{"pid": "k Core1 CTA0"}]}x'])
def test_a_damaged_trace_is_an_error(raw: bytes) -> None:
    with pytest.raises(UsageError, match="cannot read Proton's trace of scopes"):
        read_events(raw)


def test_cycles_by_scope_and_program() -> None:
    (kernel,) = inside_report(read_events(_trace(list(_entries())))).kernels
    assert (kernel.kernel, kernel.launches, kernel.warps) == ("kernel", 2, 2)
    compute, load = kernel.scopes
    assert (compute.scope, load.scope) == ("compute", "load")
    assert compute.passes == len(_CYCLES)
    assert compute.per_warp == pytest.approx(sum(c for _, c in _CYCLES.values()) / len(_CYCLES))
    assert load.per_pass == pytest.approx(100)
    assert load.programs.ratio == pytest.approx(1)
    # Program 1 of launch 0: (1000 + 1200) / 2; the other programs: 400 each.
    assert (compute.programs.slowest, compute.programs.at_core) == (1, 7)
    assert compute.programs.most == pytest.approx(1100)
    assert compute.programs.ratio == pytest.approx(1100 / 575)
    # Recorded durations: 600, 1300, 500, 500.
    assert kernel.programs.mean == pytest.approx(725)
    assert (kernel.programs.least, kernel.programs.most) == pytest.approx((500, 1300))
    # Multiprocessor 3 ran programs of 600, 500 and 500 cycles, multiprocessor 7 one of 1300.
    assert (kernel.cores.count, kernel.cores.slowest) == (2, 3)
    assert kernel.cores.most == pytest.approx(1600)


def test_the_text_names_the_imbalance() -> None:
    text = inside_report(read_events(_trace(list(_entries())))).text()
    assert "kernel: 2 launches, 2 programs, 2 warps, 2 multiprocessors" in text
    assert "imbalance: program 1 on multiprocessor 7 takes 1.79 times the mean" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_balanced_kernel_has_no_remark() -> None:
    entries = [_entry("load", program, 0, 0, 0, 100, 5) for program in range(4)]
    assert "imbalance" not in inside_report(read_events(_trace(entries))).text()


# ---- scopes of lines
@triton.jit
def lined(x_ptr, n, BLOCK: tl.constexpr):
    size = BLOCK * 2
    offsets = tl.arange(0, BLOCK)
    for start in range(0, n, size):
        x = tl.load(x_ptr + start + offsets)
        tl.store(x_ptr + start + offsets, tl.sum(x, 0) + x)


def test_each_line_with_a_call_gets_a_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    assert missing_kernel_scopes() == ""
    flags = pytest.importorskip("triton.profiler.flags").flags
    instrumentation = pytest.importorskip("triton._instrumentation")
    from triton._C.libtriton import proton

    monkeypatch.setattr(flags, "instrumentation_on", True)
    point = {"point": "load-dialects", "backend": "nvidia"}
    instrumentation.register_instrumentation(**point, callback=proton.load_dialects)
    try:
        signature = {"x_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"}
        source = triton.compiler.ASTSource(lined, signature, {(2,): 128})
        with kernel_scopes(lines=True):
            text = str(begin_compilation(source, read_target("sm_90").gpu_target(), {}).module)
        plain = str(begin_compilation(source, read_target("sm_90").gpu_target(), {}).module)
    finally:
        instrumentation.unregister_instrumentation(**point)
    first = lined.fn.__code__.co_firstlineno + 1
    lines = [first + 2, first + 3, first + 4, first + 5]
    for line in lines:
        assert text.count(f'start "line {line}"') == text.count(f'end "line {line}"') == 1
    assert text.count("proton.record") == 2 * len(lines)
    assert "proton.record" not in plain


@pytest.mark.skipif(gpu_usable(), reason="there is a GPU")
def test_without_a_gpu_the_error_says_so() -> None:
    with pytest.raises(UsageError, match="there is none here"), InsideSession().running():
        pass


def test_a_triton_without_proton_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "triton.profiler.language", None)
    assert "need Triton 3.6 or later" in missing_kernel_scopes()
