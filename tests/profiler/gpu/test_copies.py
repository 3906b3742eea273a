"""Copies and fills of memory are recorded by a library between Proton and CUPTI.

Libraries and classes of this file replace CUPTI and Proton.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import ttools.profiler.api  # noqa: F401 - registers the formats of a profile
from ttools.cli.profile.report import write, write_tables_of
from ttools.profiler.gpu import copies
from ttools.profiler.gpu.copies import CopyRecorder, MemoryOperation, OwnCopies
from ttools.profiler.gpu.proton import ProtonOptions
from ttools.profiler.gpu.proton_file import KernelTime
from ttools.profiler.gpu.session import GpuSession
from ttools.profiler.report.analysis import ProfileAnalysis
from ttools.profiler.report.html import write_page
from ttools.profiler.report.profile import Profile

_COMPILER = shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(not _COMPILER, reason="there is no C compiler")

#: Size of a record in bytes; the real size differs between kinds.
_SIZE = 256
#: As in CUPTI, the return code 12 ends the iteration over records.
_CUPTI = """
#include <stdint.h>
#include <string.h>
typedef void (*request_function)(uint8_t **, size_t *, size_t *);
typedef void (*complete_function)(void *, uint32_t, uint8_t *, size_t, size_t);
static request_function request;
static complete_function complete;
uint32_t enabled; uint64_t now; int finalized;
int cuptiGetVersion(uint32_t *version) { *version = VERSION; return 0; }
int cuptiActivityRegisterCallbacks(request_function r, complete_function c) {
    request = r; complete = c; return 0;
}
int cuptiActivityEnable(uint32_t kind) { enabled |= 1u << kind; return 0; }
int cuptiActivityDisable(uint32_t kind) { enabled &= ~(1u << kind); return 0; }
int cuptiGetTimestamp(uint64_t *into) { *into = now; return 0; }
int cuptiFinalize(void) { finalized++; return 0; }
int cuptiSubscribe(void **subscriber) { *subscriber = &enabled; return 0; }
int cuptiUnsubscribe(void *subscriber) { return subscriber != &enabled; }
int cuptiEnableCallback(void) { return 0; }
int cuptiEnableDomain(void) { return 0; }
int cuptiActivityFlushAll(void) { return 0; }
int cuptiActivitySetAttribute(void) { return 0; }
int cuptiActivityPushExternalCorrelationId(void) { return 0; }
int cuptiActivityPopExternalCorrelationId(void) { return 0; }
int cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid, uint8_t **at) {
    uint8_t *next = *at ? *at + 256 : buffer;
    if (next >= buffer + valid) return 12;
    *at = next;
    return 0;
}
void deliver(const uint8_t *records, size_t bytes) {
    uint8_t *buffer; size_t size, most;
    request(&buffer, &size, &most);
    memcpy(buffer, records, bytes);
    complete((void *)5, 6, buffer, size, bytes);
}
"""
_REQUEST = ctypes.CFUNCTYPE(
    None,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.POINTER(ctypes.c_size_t),
)
_COMPLETE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t
)


def copy(direction: int, nbytes: int, start: int, end: int, stream: int = 7) -> bytes:
    head = (1).to_bytes(4, "little") + bytes([direction, 0, 0, 0])
    return _record(head, [nbytes, start, end], [0, 1, stream])


def fill(nbytes: int, start: int, end: int) -> bytes:
    return _record((2).to_bytes(4, "little") + bytes(4), [nbytes, start, end], [0, 1, 7])


def peer_copy(nbytes: int, start: int, end: int) -> bytes:
    head = (22).to_bytes(4, "little") + bytes([10, 0, 0, 0])
    return _record(head, [nbytes, start, end], [0, 1, 7])


def kernel(start: int, end: int) -> bytes:
    return _record((10).to_bytes(4, "little") + bytes(12), [start, end], [])


def _record(head: bytes, long: Sequence[int], short: Sequence[int]) -> bytes:
    words = b"".join(number.to_bytes(8, "little") for number in long)
    return (head + words + b"".join(number.to_bytes(4, "little") for number in short)).ljust(
        _SIZE, b"\0"
    )


@pytest.fixture
def cupti(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., ctypes.CDLL]:
    """Compile a library that replaces CUPTI, and configure Proton to load it."""

    def compiled(version: int = 26) -> ctypes.CDLL:
        folder = tmp_path / f"real {version}, of CUDA"  # the linker separates options by commas
        folder.mkdir()
        source, library = folder / "cupti.c", folder / "libcupti.so"
        source.write_text(_CUPTI.replace("VERSION", str(version)))
        words = [str(_COMPILER), "-shared", "-fPIC", str(source), "-o", str(library)]
        # Another library of this name may be loaded already, such as torch's on a machine with a
        # GPU.
        subprocess.run([*words, "-Wl,-soname,libcupti.so.12"], check=True)
        monkeypatch.setenv("TRITON_CUPTI_LIB_PATH", str(folder))
        return ctypes.CDLL(str(library))

    monkeypatch.setattr(copies, "_loaded", {})
    return compiled


class StandInProton:
    """Loads CUPTI, registers its callbacks and stores the delivered buffers, as Proton does."""

    def __init__(self) -> None:
        folder = os.environ["TRITON_CUPTI_LIB_PATH"]
        self.library = ctypes.CDLL(f"{folder}/libcupti.so")
        self.given: list[tuple[Any, ...]] = []
        self._buffer = ctypes.create_string_buffer(1 << 16)
        self._callbacks = _REQUEST(self._request), _COMPLETE(self._complete)
        assert self.library.cuptiSubscribe(ctypes.byref(ctypes.c_void_p())) == 0
        assert self.library.cuptiActivityEnable(10) == 0
        assert self.library.cuptiActivityRegisterCallbacks(*self._callbacks) == 0

    def _request(self, buffer: Any, size: Any, most: Any) -> None:
        buffer[0], size[0], most[0] = ctypes.addressof(self._buffer), len(self._buffer), 0

    def _complete(self, context: Any, stream: int, buffer: int, size: int, valid: int) -> None:
        assert (buffer, size) == (ctypes.addressof(self._buffer), len(self._buffer))
        self.given.append((context, stream, self._buffer.raw[:valid]))


_KINDS = 1 << 1 | 1 << 2 | 1 << 22


def test_records_are_stored_and_forwarded(cupti: Callable[..., ctypes.CDLL]) -> None:
    real, before = cupti(), os.environ["TRITON_CUPTI_LIB_PATH"]
    recorder = CopyRecorder(OwnCopies())
    with recorder.in_front_of_cupti():
        proton = StandInProton()
    assert os.environ["TRITON_CUPTI_LIB_PATH"] == before
    assert recorder.reason == ""
    assert ctypes.c_uint32.in_dll(real, "enabled").value == _KINDS | 1 << 10
    first = kernel(1000, 2000) + copy(1, 4096, 100, 300) + fill(64, 2500, 2600)
    second = peer_copy(8, 3000, 3100) + kernel(500, 900) + copy(8, 16, 0, 0) + copy(2, 9, 5, 6, 8)
    for records in (first, second, b""):
        real.deliver(records, len(records))
    proton.library.cuptiFinalize()
    recorder.end()
    assert proton.given == [(5, 6, first), (5, 6, second), (5, 6, b"")]
    assert ctypes.c_int.in_dll(real, "finalized").value == 1
    assert recorder.first_kernel == 500
    # A copy without duration was not executed.
    assert recorder.operations == [
        MemoryOperation("copy device to host", 9, 5, 6, 8),
        MemoryOperation("copy host to device", 4096, 100, 300, 7),
        MemoryOperation("fill", 64, 2500, 2600, 7),
        MemoryOperation("copy between devices", 8, 3000, 3100, 7),
    ]
    kernels = [KernelTime("k", 2.0, 1e-6, lane="0 7")]
    operations = recorder.times(kernels, summed=False)
    assert [operation.lane for operation in operations] == ["8", "0 7", "0 7", "0 7"]
    assert [round((operation.begin - 2.0) * 1e9) for operation in operations] == [
        -495,
        -400,
        2000,
        2500,
    ]
    assert [round(operation.seconds * 1e9) for operation in operations] == [1, 200, 100, 100]


def test_several_sessions_and_a_session_of_the_program(
    cupti: Callable[..., ctypes.CDLL],
) -> None:
    real = cupti()
    first, second = CopyRecorder(OwnCopies()), CopyRecorder(OwnCopies())
    with first.in_front_of_cupti():
        proton = StandInProton()
    real.deliver(copy(1, 1, 1, 2), _SIZE)
    first.end()  # a session of the program continues, so that CUPTI is not finalized
    assert ctypes.c_uint32.in_dll(real, "enabled").value == 1 << 10
    real.deliver(copy(1, 2, 3, 4), _SIZE)
    with second.in_front_of_cupti():
        assert ctypes.c_uint32.in_dll(real, "enabled").value == _KINDS | 1 << 10
    real.deliver(copy(1, 3, 5, 6), _SIZE)
    second.end()
    assert [operation.nbytes for operation in first.operations] == [1]
    assert [operation.nbytes for operation in second.operations] == [3]
    assert len(proton.given) == 3


def test_proton_with_a_loaded_cupti_is_not_intercepted(
    cupti: Callable[..., ctypes.CDLL],
) -> None:
    real = cupti()
    proton = StandInProton()
    recorder = CopyRecorder(OwnCopies())
    with recorder.in_front_of_cupti():
        """Proton starts, and loads nothing."""
    real.deliver(copy(1, 1, 1, 2), _SIZE)
    recorder.end()
    assert (len(proton.given), recorder.operations) == (1, [])
    assert recorder.reason == "Proton had already loaded CUPTI"


@pytest.mark.parametrize(
    ("version", "is_known"), [(17, False), (18, True), (26, True), (130500, True), (140000, False)]
)
def test_other_versions_of_cupti_are_refused(
    cupti: Callable[..., ctypes.CDLL], version: int, is_known: bool
) -> None:
    cupti(version)
    recorder = CopyRecorder(OwnCopies())
    with recorder.in_front_of_cupti():
        StandInProton()
    reason = "" if is_known else f"the record format of CUPTI version {version} is unknown"
    assert recorder.reason == reason


def test_missing_libraries_are_named(
    cupti: Callable[..., ctypes.CDLL], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def reason(backend: str | None = None) -> str:
        recorder = CopyRecorder(OwnCopies(), backend=backend)
        with recorder.in_front_of_cupti():
            """Proton starts."""
        recorder.end()
        assert recorder.operations == []
        return recorder.reason

    cupti()
    assert reason("roctracer") == "Proton's backend is roctracer"
    monkeypatch.setenv("CC", "false")
    assert reason().startswith("the C compiler fails")
    monkeypatch.setenv("CC", str(tmp_path / "no_such"))
    assert reason().startswith("the C compiler fails")
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert reason() == "there is no C compiler"
    monkeypatch.setenv("TRITON_CUPTI_LIB_PATH", str(tmp_path))
    assert reason() == f"{tmp_path / 'libcupti.so'} does not exist"


def test_layout_of_records_agrees_with_the_headers_of_triton(tmp_path: Path) -> None:
    headers = Path(triton.__file__).parent / "backends" / "nvidia" / "include"
    pairs = {
        ("copy", "CUpti_ActivityMemcpy6"): {"direction": "copyKind"},
        ("copy", "CUpti_ActivityMemcpyPtoP4"): {"direction": "copyKind"},
        ("fill", "CUpti_ActivityMemset4"): {"value": "value"},
    }
    common = {"kind": "kind", "bytes": "bytes", "start": "start", "end": "end"}
    common |= {"device": "deviceId", "context": "contextId", "stream": "streamId"}
    checks = [
        f"_Static_assert(offsetof(struct {own}, {ours}) == offsetof({theirs}, {name}), {name!r});"
        for (own, theirs), special in pairs.items()
        for ours, name in (common | special).items()
    ]
    checks += [
        f"_Static_assert(offsetof(struct kernel, {name}) == "
        f"offsetof(CUpti_ActivityKernel9, {name}), {name!r});"
        for name in ("kind", "start", "end")
    ]
    checks += [
        f"_Static_assert({ours} == CUPTI_ACTIVITY_KIND_{theirs}, {ours!r});"
        for ours, theirs in (
            *(("COPY", "MEMCPY"), ("FILL", "MEMSET"), ("PEER_COPY", "MEMCPY2")),
            *(("KERNEL", "KERNEL"), ("CONCURRENT_KERNEL", "CONCURRENT_KERNEL")),
        )
    ]
    source = tmp_path / "check.c"
    lines = "\n".join(checks).replace("'", '"')
    source.write_text(
        "#define cuptiActivityRegisterCallbacks own_register\n#define cuptiFinalize own_finalize\n"
        f'#define REAL_CUPTI ""\n#include "{copies._SOURCE}"\n#undef cuptiFinalize\n'
        "#undef cuptiActivityRegisterCallbacks\n#include <cuda.h>\n#include <cupti_activity.h>\n"
        f"{lines}\n"
    )
    words = [str(_COMPILER), "-fsyntax-only", "-I", str(headers), str(source)]
    result = subprocess.run(words, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


class Clock:
    """Replaces the recording library, of which only the clock is used."""

    def __init__(self) -> None:
        self.now = 0

    def cuptiGetTimestamp(self, into: Any) -> None:
        into._obj.value = self.now


def test_copies_by_the_profiler_are_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.synchronize", lambda: None)
    clock, own = Clock(), OwnCopies()
    with own.copying_to_host():
        """Nothing is recorded yet."""
    own.begin(clock)  # type: ignore[arg-type]
    ms = 1_000_000
    clock.now = 10 * ms
    own.add(own.now(), [64, 0])
    with own.copying_to_host():
        clock.now = 20 * ms
    own.end()
    own.add(own.now(), [128])
    device, host = "copy device to device", "copy device to host"
    operations = [
        MemoryOperation(device, 64, 9 * ms, 9 * ms + 1, 7),  # requested before the profiler's copy
        MemoryOperation(device, 64, 30 * ms, 30 * ms + 1, 7),
        MemoryOperation(device, 64, 11 * ms, 11 * ms + 1, 7),  # by the profiler
        MemoryOperation(device, 128, 11 * ms, 11 * ms + 1, 7),
        MemoryOperation("fill", 64, 11 * ms, 11 * ms + 1, 7),
        MemoryOperation(host, 5, 12 * ms, 13 * ms, 7),  # by the profiler
        MemoryOperation(host, 5, 25 * ms, 26 * ms, 7),
    ]
    remaining = own.removed_from(operations)
    assert set(operations) - set(remaining) == {operations[2], operations[5]}
    assert remaining == sorted(remaining, key=lambda operation: operation.start)


@triton.jit
def plain_kernel(x_ptr, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


@pytest.fixture
def profiled(
    cupti: Callable[..., ctypes.CDLL], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., ProfileAnalysis]:
    """Return a function that profiles two launches with copies between them, all emulated."""
    real = cupti()

    def run(data: Any = "trace", only: Sequence[str] | None = None) -> ProfileAnalysis:
        @contextmanager
        def session(stem: Path, options: ProtonOptions, recorder: CopyRecorder) -> Iterator[None]:
            with recorder.in_front_of_cupti():
                proton = StandInProton()
            yield
            records = copy(1, 4000, 11_000, 13_000) + kernel(10_000, 11_000)
            records += copy(1, 2000, 13_000, 15_000) + fill(512, 15_000, 16_000)
            real.deliver(records + kernel(18_000, 20_000), _SIZE * 5)
            proton.library.cuptiFinalize()
            recorder.end()
            events = [
                {"ph": "X", "cat": "kernel", "name": "plain_kernel", "tid": 7, "ts": ts, "dur": dur}
                for ts, dur in ((0, 1), (8, 2))
            ]
            metrics = {"time (ns)": 3000, "count": 2}
            node = {"frame": {"name": "plain_kernel"}, "metrics": metrics, "children": []}
            root = {"frame": {"name": "ROOT"}, "metrics": {}, "children": [node]}
            written = {"trace": {"traceEvents": events}, "tree": [root]}[options.data]
            options.file(stem).write_text(json.dumps(written))

        monkeypatch.setattr("ttools.profiler.gpu.proton.session", session)
        x, own = torch.zeros(16), GpuSession(only, options=ProtonOptions(data=data))
        with own.running():
            plain_kernel[(1,)](x, BLOCK=16)
            plain_kernel[(1,)](x, BLOCK=16)
        return Profile(own, None, None).analyse()

    return run


_WITH_PROTON = """
import ctypes, sys
from pathlib import Path
import torch, triton.profiler.profile
from ttools.profiler.gpu import proton
from ttools.profiler.gpu.copies import CopyRecorder, OwnCopies
torch.cuda.synchronize = lambda *_: None
triton.profiler.profile._check_env = lambda backend: None  # it asks for a GPU
real, stem, cuda, records = sys.argv[1:]
ctypes.CDLL(cuda, ctypes.RTLD_GLOBAL)
recorder, sent = CopyRecorder(OwnCopies()), bytes.fromhex(records)
options = proton.ProtonOptions(backend="cupti")
with proton.session(Path(stem), options, recorder):
    ctypes.CDLL(real).deliver(sent, len(sent))
print(repr(recorder.reason), [(o.name, o.nbytes) for o in recorder.operations])
"""


def test_the_real_proton_receives_its_buffers_from_the_recorder(
    cupti: Callable[..., ctypes.CDLL], tmp_path: Path
) -> None:
    """Run Triton's Proton with replacements of CUDA and CUPTI; it also has to accept copies."""
    real = cupti()._name
    source, cuda = tmp_path / "cuda.c", tmp_path / "libcuda.so.1"
    source.write_text(
        "int cuCtxGetCurrent(void **context) { *context = 0; return 0; }\n"
        "int cuInit(unsigned flags) { return flags; }\n"
    )
    words = [str(_COMPILER), "-shared", "-fPIC", str(source), "-o", str(cuda)]
    subprocess.run([*words, "-Wl,-soname,libcuda.so.1"], check=True)
    records = copy(1, 4096, 100, 300) + fill(64, 400, 500) + kernel(1000, 2000)
    words = [real, str(tmp_path / "profile"), str(cuda), records.hex()]
    result = subprocess.run(
        [sys.executable, "-c", _WITH_PROTON, *words], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "'' [('copy host to device', 4096), ('fill', 64)]"


@pytest.mark.parametrize("data", ["trace", "tree"])
def test_copies_and_fills_are_rows_of_a_profile(
    profiled: Callable[..., ProfileAnalysis], data: str
) -> None:
    prof = profiled(data)
    frame = prof.frame.set_index("kernel")
    assert dict(frame["kind"]) == {
        "plain_kernel": "kernel",
        "copy host to device": "copy",
        "fill": "fill",
    }
    row = frame.loc["copy host to device"]
    assert (row["launches"], row["told_by"]) == (2, "cupti")
    assert (row["total_s"], row["share"]) == pytest.approx((4e-6, 4 / 8))
    assert (row["mean_s"], row["gbytes"]) == pytest.approx((2e-6, 1.5))
    if data == "trace":
        assert (row["bytes"], row["max_s"]) == pytest.approx((3000.0, 2e-6))
    assert (prof.launches, prof.notes) == (2, {})
    assert set(prof.signatures["kernel"]) == {"plain_kernel"}
    assert prof.frame["total_s"].sum() == pytest.approx(8e-6)
    tree = prof.tree.as_dict()
    assert {child["name"]: child["kind"] for child in tree["children"]} == dict(frame["kind"])
    assert tree["bytes"] == 6000 + 512 + 2 * 64
    if data == "trace":
        assert "the GPU was idle for 0.002 of 0.01 ms (20%)" in prof.unseen
        begins = [(sample.kind, round(sample.begin * 1e6)) for sample in prof.samples]
        assert begins == [("kernel", 0), ("copy", 1), ("copy", 3), ("fill", 5), ("kernel", 8)]
        assert {sample.lane for sample in prof.samples} == {"7"}
    else:
        assert prof.unseen == ""


def test_selected_kernels_are_shown_without_copies(
    profiled: Callable[..., ProfileAnalysis],
) -> None:
    prof = profiled(only=["plain_kernel"])
    assert list(prof.frame["kernel"]) == ["plain_kernel"]
    assert "(only selected kernels are profiled)" in prof.unseen


def test_every_format_marks_operations_other_than_kernels(
    profiled: Callable[..., ProfileAnalysis], capsys: pytest.CaptureFixture[str]
) -> None:
    prof = profiled()
    write_tables_of(prof, "text", None, lines=False, tree=True)
    text = " ".join(capsys.readouterr().out.split())
    assert "1 kernel, 2 launches, 3 copies and fills of memory, 8 us" in text
    assert "copy host to device (not a kernel)" in text
    assert "4 us in 2 copies: median 2 us" in text
    assert "moves 3 kB on average, 1.5 GB/s" in text
    assert "1 us in 1 fill" in text
    write_tables_of(prof, "markdown", None, lines=False, tree=False)
    assert "copy host to device (not a kernel)" in capsys.readouterr().out
    for form in ("csv", "json", "chrome"):
        write(prof, form, None, lines=False, target="t.py", status=0)
        out = capsys.readouterr().out
        if form == "csv":
            assert "copy host to device,,copy,2," in out
        elif form == "json":
            rows = {kernel["kernel"]: kernel["kind"] for kernel in json.loads(out)["kernels"]}
            assert rows["fill"] == "fill"
        else:
            events = json.loads(out)["traceEvents"]
            assert [e["cat"] for e in events if e["ph"] == "X"].count("copy") == 2
    page = write_page(prof)
    assert '<td class="name"><button class="kernel">copy host to device</button></td>' in page
    assert 'data-column="kind"' in page
