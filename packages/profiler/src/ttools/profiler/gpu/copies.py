"""Copies and fills of memory on an NVIDIA GPU, recorded beside Proton.

Proton records kernels only, and CUPTI accepts neither a second subscriber nor a second pair of
buffer callbacks. Proton loads `libcupti.so` from a directory that an environment variable names, so
a small library in front of the real one, `cupti_copies.c`, reads each buffer on its way to Proton.
It is compiled with the C compiler that Triton needs anyway to launch kernels on a GPU.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ttools.profiler.gpu.proton_file import KernelTime
from ttools.profiler.run.session import Kind

#: The directory that Proton loads `libcupti.so` from.
_VARIABLE = "TRITON_CUPTI_LIB_PATH"
_SOURCE = Path(__file__).parent / "cupti_copies.c"
_LIBRARY = "libcupti.so"
_COMPILER_SECONDS = 60.0
#: CUPTI's versions whose records begin as `cupti_copies.c` declares them: of CUDA 12, and 13, which
#: counts as 130000.
_VERSIONS = (range(18, 30), range(130_000, 140_000))

_FILL, _PEER_COPY = 2, 22
#: By `CUpti_ActivityMemcpyKind`; arrays, for textures, count as memory of the device.
_DIRECTIONS = {
    1: "host to device",
    2: "device to host",
    3: "host to device",
    4: "device to host",
    5: "device to device",
    6: "device to device",
    7: "device to device",
    8: "device to device",
    9: "host to host",
    10: "between devices",
}
_TO_HOST, _ON_DEVICE = "copy device to host", "copy device to device"
#: Nanoseconds by which the clocks of the host and of the GPU may differ.
_CLOCKS = 100_000


class _Record(ctypes.Structure):
    _fields_ = [
        ("kind", ctypes.c_uint32),
        ("direction", ctypes.c_uint32),
        ("bytes", ctypes.c_uint64),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("device", ctypes.c_uint32),
        ("stream", ctypes.c_uint32),
    ]


@dataclass(frozen=True)
class MemoryOperation:
    """A copy or a fill of memory.

    Attributes:
        name: As reports show it: `copy host to device`, `fill`.
        nbytes: Bytes that were copied or filled.
        start: Nanoseconds on CUPTI's clock.
        end: Nanoseconds on the same clock.
        stream: CUPTI's number of the stream.
    """

    name: str
    nbytes: int
    start: int
    end: int
    stream: int

    @property
    def kind(self) -> Kind:
        return "fill" if self.name == "fill" else "copy"


class OwnCopies:
    """Copies that the profiler makes itself while a program runs, which are none of the program's.

    While nothing is recorded, nothing is noted.
    """

    def __init__(self) -> None:
        self._clock: ctypes.CDLL | None = None
        #: Time and size of each copy on the device, in the order of the calls.
        self._on_device: list[tuple[int, int]] = []
        #: Begin and end of each period in which tensors were copied to the host.
        self._to_host: list[tuple[int, int]] = []

    def begin(self, clock: ctypes.CDLL) -> None:
        """Note copies from now on.

        Args:
            clock: A library with CUPTI's clock, which the times of records are on.
        """
        self._clock = clock
        self._on_device, self._to_host = [], []

    def end(self) -> None:
        """Note no more copies."""
        self._clock = None

    def now(self) -> int:
        """Return nanoseconds on CUPTI's clock; 0 while nothing is recorded."""
        found = ctypes.c_uint64()
        if self._clock is not None:
            self._clock.cuptiGetTimestamp(ctypes.byref(found))
        return found.value

    def add(self, when: int, sizes: Iterable[int]) -> None:
        """Note copies on the device.

        Args:
            when: The value of `now` before they were requested.
            sizes: Bytes of each.
        """
        if self._clock is not None:
            self._on_device += [(when, nbytes) for nbytes in sizes if nbytes]

    @contextmanager
    def copying_to_host(self) -> Iterator[None]:
        """Note that all copies to the host within the context are the profiler's."""
        if self._clock is None:
            yield
            return
        import torch

        with suppress(RuntimeError):  # an error of a kernel's is the program's to meet
            torch.cuda.synchronize()
        begin = self.now()
        try:
            yield
        finally:
            self._to_host.append((begin, self.now()))

    def removed_from(self, operations: Iterable[MemoryOperation]) -> list[MemoryOperation]:
        """Return the operations without those noted here.

        Records hold no addresses: of equal copies, the first one after a noted call is removed.
        """
        left = [
            each
            for each in sorted(operations, key=lambda each: each.start)
            if each.name != _TO_HOST or not self._is_to_host(each)
        ]
        for when, nbytes in self._on_device:
            for place, each in enumerate(left):
                is_equal = each.name == _ON_DEVICE and each.nbytes == nbytes
                if is_equal and each.start >= when - _CLOCKS:
                    del left[place]
                    break
        return left

    def _is_to_host(self, operation: MemoryOperation) -> bool:
        return any(
            begin - _CLOCKS <= operation.start <= end + _CLOCKS for begin, end in self._to_host
        )


class CopyRecorder:
    """Records copies and fills of memory while a session of Proton runs.

    Args:
        own: Copies that the profiler makes itself; they are left out.
        backend: Proton's source of times; the GPU's own by default.

    Attributes:
        reason: Why nothing is recorded, in a clause; empty if operations are recorded.
        operations: What was recorded, once the session has ended.
        first_kernel: Start of the first kernel on CUPTI's clock; None if there was none.
    """

    def __init__(self, own: OwnCopies, *, backend: str | None = None) -> None:
        self._own = own
        self.operations: list[MemoryOperation] = []
        self.first_kernel: int | None = None
        self._library: ctypes.CDLL | None = None
        self.reason = "" if backend in (None, "cupti") else f"Proton's backend is {backend}"

    @contextmanager
    def in_front_of_cupti(self) -> Iterator[None]:
        """Let a Proton that starts within the context load CUPTI through the recording library."""
        if self.reason:
            yield
            return
        before = os.environ.get(_VARIABLE)
        try:
            self._library = _recording_library()
        except UnavailableError as error:
            self.reason = str(error)
            yield
            return
        self._library.ttools_record_copies(1)
        os.environ[_VARIABLE] = str(Path(self._library._name).parent)
        try:
            yield
        finally:
            if before is None:
                os.environ.pop(_VARIABLE, None)
            else:
                os.environ[_VARIABLE] = before
        if self._library.ttools_is_registered():
            self._own.begin(self._library)
        else:
            self._library.ttools_record_copies(0)
            self._library = None
            self.reason = "Proton had loaded CUPTI before"

    def end(self) -> None:
        """Take what was recorded; call it once Proton's session has ended."""
        library, self._library = self._library, None
        self._own.end()
        if library is None:
            return
        library.ttools_record_copies(0)
        found = (_Record * library.ttools_recorded(None, 0))()
        library.ttools_recorded(found, len(found))
        first = library.ttools_first_kernel()
        self.first_kernel = None if first == ctypes.c_uint64(-1).value else first
        self.operations = self._own.removed_from(
            MemoryOperation(_name(each), each.bytes, each.start, each.end, each.stream)
            for each in found
            if each.start < each.end
        )
        if missed := library.ttools_dropped():
            self.reason = f"{missed:,} of them found no memory"

    def times(self, kernels: Sequence[KernelTime], *, summed: bool) -> list[KernelTime]:
        """Return the operations as times among those of kernels.

        Args:
            kernels: All kernels that Proton timed in the session, in their order.
            summed: Whether Proton kept sums, so that operations of one name are summed, too.
        """
        if summed:
            return _summed(self.operations)
        starts = [each.start for each in self.operations]
        zero = self.first_kernel if self.first_kernel is not None else min(starts, default=0)
        begin = kernels[0].begin if kernels and self.first_kernel is not None else 0.0
        lanes = {_number(each.lane): each.lane for each in kernels}
        return [
            KernelTime(
                each.name,
                begin + (each.start - zero) / 1e9,
                (each.end - each.start) / 1e9,
                lanes.get(str(each.stream), str(each.stream)),
                kind=each.kind,
                nbytes=each.nbytes,
            )
            for each in self.operations
        ]


def _summed(operations: Iterable[MemoryOperation]) -> list[KernelTime]:
    together: dict[str, list[MemoryOperation]] = {}
    for each in operations:
        together.setdefault(each.name, []).append(each)
    return [
        KernelTime(
            name,
            0.0,
            sum(each.end - each.start for each in own) / 1e9,
            launches=len(own),
            kind=own[0].kind,
            nbytes=sum(each.nbytes for each in own),
        )
        for name, own in together.items()
    ]


def _name(record: _Record) -> str:
    if record.kind == _FILL:
        return "fill"
    if record.kind == _PEER_COPY:
        return "copy between devices"
    return f"copy {_DIRECTIONS.get(record.direction, 'of memory')}"


def _number(lane: str) -> str:
    """Return the number of the stream that a lane of Proton's names: `7`, `0 7`, `stream 7`."""
    return lane.split()[-1] if lane.split() else ""


class UnavailableError(Exception):
    """No recording library can be had here; the message is a clause that says why."""


#: Recording libraries by the real library in front of which they are. Proton keeps what it has
#: loaded, so there is one for the whole process.
_loaded: dict[Path, ctypes.CDLL] = {}


def _recording_library() -> ctypes.CDLL:
    real = real_cupti()
    if real not in _loaded:
        _check_version(real)
        # The directory is needed until Proton has loaded the library, at a time of its own.
        folder = Path(tempfile.mkdtemp(prefix="ttools-cupti-"))
        _remove_at_exit(folder)
        _loaded[real] = _declared(compile_recorder(real, folder))
    return _loaded[real]


def _remove_at_exit(folder: Path) -> None:
    import atexit

    atexit.register(shutil.rmtree, folder, ignore_errors=True)


def real_cupti() -> Path:
    """Return the library that Proton would load."""
    import triton

    knobs = triton.knobs.proton
    folder = os.environ.get(_VARIABLE)
    if not folder:
        folder = knobs.cupti_lib_dir
        blackwell = getattr(knobs, "cupti_lib_blackwell_dir", None)
        if blackwell and triton.runtime.driver.active.get_current_target().arch >= 100:
            folder = blackwell
    found = Path(folder or "") / _LIBRARY
    if not found.is_file():
        raise UnavailableError(f"{found} does not exist")
    return found.resolve()


def _check_version(real: Path) -> None:
    version = ctypes.c_uint32()
    try:
        status = ctypes.CDLL(str(real)).cuptiGetVersion(ctypes.byref(version))
    except (OSError, AttributeError) as error:
        raise UnavailableError(f"CUPTI cannot be loaded: {error}") from error
    if status or not any(version.value in known for known in _VERSIONS):
        raise UnavailableError(f"the records of CUPTI's version {version.value} are not known here")


def compile_recorder(real: Path, folder: Path) -> Path:
    """Compile the recording library in front of a CUPTI.

    Args:
        real: The library that it depends on.
        folder: Where to write it.

    Raises:
        UnavailableError: There is no C compiler, or it fails.
    """
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        raise UnavailableError("there is no C compiler")
    # The loader takes a dependency with a slash in its name for a path, which nothing else that is
    # loaded matches: torch may have loaded another CUPTI. The linker takes the name from a library.
    named, library = folder / "named.so", folder / _LIBRARY
    link = [str(compiler), "-shared", "-fPIC", "-x", "c"]
    path = str(real).replace("\\", "\\\\").replace('"', '\\"')
    _run([*link, os.devnull, "-Xlinker", "-soname", "-Xlinker", str(real), "-o", str(named)])
    _run(
        [
            *(*link, "-O2", "-fexceptions", f'-DREAL_CUPTI="{path}"', str(_SOURCE), "-x", "none"),
            *("-Xlinker", "--no-as-needed", str(named), "-ldl", "-lpthread", "-o", str(library)),
        ]
    )
    return library


def _run(words: Sequence[str]) -> None:
    try:
        subprocess.run(words, check=True, capture_output=True, text=True, timeout=_COMPILER_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        said = str(getattr(error, "stderr", "") or error).strip().splitlines()
        raise UnavailableError(f"the C compiler fails: {said[0] if said else error}") from error


def _declared(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise UnavailableError(f"their recorder cannot be loaded: {error}") from error
    library.ttools_recorded.argtypes = (ctypes.POINTER(_Record), ctypes.c_size_t)
    library.ttools_recorded.restype = ctypes.c_size_t
    library.ttools_first_kernel.restype = ctypes.c_uint64
    library.ttools_dropped.restype = ctypes.c_uint64
    return library
