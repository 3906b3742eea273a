"""Records copies and fills of memory on an NVIDIA GPU during a Proton session.

Proton records kernels only, and CUPTI accepts neither a second subscriber nor a second pair of
buffer callbacks. But Proton loads `libcupti.so` from a directory that an environment variable
names. This module puts a small library, `cupti_copies.c`, into such a directory. The library
forwards to the real CUPTI and reads each buffer of records before Proton gets it. It is compiled by
the C compiler that Triton needs anyway to launch kernels on a GPU.
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

from ttools.core.context_values import in_environment
from ttools.profiler.gpu.proton_file import KernelTime
from ttools.profiler.run.session import Kind

#: The directory that Proton loads `libcupti.so` from.
_VARIABLE = "TRITON_CUPTI_LIB_PATH"
_SOURCE = Path(__file__).parent / "cupti_copies.c"
_LIBRARY = "libcupti.so"
_COMPILER_SECONDS = 60.0
#: Versions of CUPTI whose records have the layout that `cupti_copies.c` declares: those of CUDA 12
#: and 13. For example, CUPTI of CUDA 13.0 has the version number 130000.
_VERSIONS = (range(18, 30), range(130_000, 140_000))

_FILL, _PEER_COPY = 2, 22
#: Direction by `CUpti_ActivityMemcpyKind`; arrays (memory of textures) count as device memory.
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
#: Assumed limit of the difference between the clocks of host and GPU, in nanoseconds.
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
        name: Name in reports, such as `copy host to device` or `fill`.
        nbytes: Number of bytes copied or filled.
        start: Start time in nanoseconds on CUPTI's clock.
        end: End time in nanoseconds on CUPTI's clock.
        stream: CUPTI's number of the stream.
    """

    name: str
    nbytes: int
    start: int
    end: int
    stream: int

    @property
    def kind(self) -> Kind:
        """Return the kind of operation."""
        return "fill" if self.name == "fill" else "copy"


class OwnCopies:
    """Records the profiler's own copies while a program runs, to exclude them from figures.

    Outside a session, nothing is recorded.
    """

    def __init__(self) -> None:
        self._clock: ctypes.CDLL | None = None
        #: Time and size of each copy on the device, in the order of the calls.
        self._on_device: list[tuple[int, int]] = []
        #: Begin and end of each period in which tensors were copied to the host.
        self._to_host: list[tuple[int, int]] = []

    def begin(self, clock: ctypes.CDLL) -> None:
        """Start recording.

        Args:
            clock: A library that provides CUPTI's clock, on which operations are timed.
        """
        self._clock = clock
        self._on_device, self._to_host = [], []

    def end(self) -> None:
        """Stop recording."""
        self._clock = None

    def now(self) -> int:
        """Return the current time in nanoseconds on CUPTI's clock; 0 outside a session."""
        time = ctypes.c_uint64()
        if self._clock is not None:
            self._clock.cuptiGetTimestamp(ctypes.byref(time))
        return time.value

    def add(self, when: int, sizes: Iterable[int]) -> None:
        """Record copies on the device.

        Args:
            when: Return value of `now` from before the copies were requested.
            sizes: The size of each copy in bytes.
        """
        if self._clock is not None:
            self._on_device += [(when, nbytes) for nbytes in sizes if nbytes]

    @contextmanager
    def copying_to_host(self) -> Iterator[None]:
        """Treat all copies to the host during the `with` block as the profiler's own copies."""
        if self._clock is None:
            yield
            return
        import torch

        with suppress(RuntimeError):  # the program itself gets the error of a failed kernel
            torch.cuda.synchronize()
        begin = self.now()
        try:
            yield
        finally:
            self._to_host.append((begin, self.now()))

    def removed_from(self, operations: Iterable[MemoryOperation]) -> list[MemoryOperation]:
        """Return the operations except those that this object has recorded.

        CUPTI's records have no addresses. So for each copy recorded here, the first later copy of
        the same size is removed.
        """
        remaining = [
            operation
            for operation in sorted(operations, key=lambda operation: operation.start)
            if operation.name != _TO_HOST or not self._is_to_host(operation)
        ]
        for when, nbytes in self._on_device:
            for place, operation in enumerate(remaining):
                is_equal = operation.name == _ON_DEVICE and operation.nbytes == nbytes
                if is_equal and operation.start >= when - _CLOCKS:
                    del remaining[place]
                    break
        return remaining

    def _is_to_host(self, operation: MemoryOperation) -> bool:
        return any(
            begin - _CLOCKS <= operation.start <= end + _CLOCKS for begin, end in self._to_host
        )


class CopyRecorder:
    """Records copies and fills of memory during a Proton session.

    Args:
        own: The profiler's own copies, which are excluded.
        backend: Proton's source of times; the GPU's own by default.

    Attributes:
        reason: Clause that explains why nothing is recorded; empty if operations are recorded.
        operations: The recorded operations, once the session has ended.
        first_kernel: Start of the first kernel on CUPTI's clock; None if there was no kernel.
    """

    def __init__(self, own: OwnCopies, *, backend: str | None = None) -> None:
        self._own = own
        self.operations: list[MemoryOperation] = []
        self.first_kernel: int | None = None
        self._library: ctypes.CDLL | None = None
        self.reason = "" if backend in (None, "cupti") else f"Proton's backend is {backend}"

    @contextmanager
    def in_front_of_cupti(self) -> Iterator[None]:
        """Make a Proton session that starts in the `with` block load CUPTI through our library."""
        if self.reason:
            yield
            return
        try:
            self._library = _recording_library()
        except UnavailableError as error:
            self.reason = str(error)
            yield
            return
        self._library.ttools_record_copies(1)
        with in_environment({_VARIABLE: str(Path(self._library._name).parent)}):
            yield
        if self._library.ttools_is_registered():
            self._own.begin(self._library)
        else:
            self._library.ttools_record_copies(0)
            self._library = None
            self.reason = "Proton had already loaded CUPTI"

    def end(self) -> None:
        """Collect the recorded operations; call it once Proton's session has ended."""
        library, self._library = self._library, None
        self._own.end()
        if library is None:
            return
        library.ttools_record_copies(0)
        records = (_Record * library.ttools_recorded(None, 0))()
        library.ttools_recorded(records, len(records))
        first = library.ttools_first_kernel()
        self.first_kernel = None if first == ctypes.c_uint64(-1).value else first
        self.operations = self._own.removed_from(
            MemoryOperation(_name(record), record.bytes, record.start, record.end, record.stream)
            for record in records
            if record.start < record.end
        )
        if missed := library.ttools_dropped():
            self.reason = f"memory ran out for {missed:,} of them"

    def times(self, kernels: Sequence[KernelTime], *, summed: bool) -> list[KernelTime]:
        """Return the times of the operations, converted to the clock of Proton's kernel times.

        Args:
            kernels: All kernels that Proton timed in the session, in order.
            summed: True if Proton recorded sums of times; then operations with equal names are
                summed, too.
        """
        if summed:
            return _summed(self.operations)
        starts = [operation.start for operation in self.operations]
        zero = self.first_kernel if self.first_kernel is not None else min(starts, default=0)
        begin = kernels[0].begin if kernels and self.first_kernel is not None else 0.0
        lanes = {_number(operation.lane): operation.lane for operation in kernels}
        return [
            KernelTime(
                operation.name,
                begin + (operation.start - zero) / 1e9,
                (operation.end - operation.start) / 1e9,
                lanes.get(str(operation.stream), str(operation.stream)),
                kind=operation.kind,
                nbytes=operation.nbytes,
            )
            for operation in self.operations
        ]


def _summed(operations: Iterable[MemoryOperation]) -> list[KernelTime]:
    together: dict[str, list[MemoryOperation]] = {}
    for operation in operations:
        together.setdefault(operation.name, []).append(operation)
    return [
        KernelTime(
            name,
            0.0,
            sum(operation.end - operation.start for operation in own) / 1e9,
            launches=len(own),
            kind=own[0].kind,
            nbytes=sum(operation.nbytes for operation in own),
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
    """Return the number of the stream in a Proton lane's name, such as `7`, `0 7` or `stream 7`."""
    return lane.split()[-1] if lane.split() else ""


class UnavailableError(Exception):
    """The recording library cannot be used; the message is a clause with the reason."""


#: Recording libraries, by the real library to which they forward. Proton does not unload a library,
#: so a recording library stays in use until the process ends.
_loaded: dict[Path, ctypes.CDLL] = {}


def _recording_library() -> ctypes.CDLL:
    real = real_cupti()
    if real not in _loaded:
        _check_version(real)
        # Proton loads the library at an unknown time, so the directory is kept until the process
        # exits.
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
    library = Path(folder or "") / _LIBRARY
    if not library.is_file():
        raise UnavailableError(f"{library} does not exist")
    return library.resolve()


def _check_version(real: Path) -> None:
    version = ctypes.c_uint32()
    try:
        status = ctypes.CDLL(str(real)).cuptiGetVersion(ctypes.byref(version))
    except (OSError, AttributeError) as error:
        raise UnavailableError(f"CUPTI cannot be loaded: {error}") from error
    if status or not any(version.value in versions for versions in _VERSIONS):
        raise UnavailableError(f"the record format of CUPTI version {version.value} is unknown")


def compile_recorder(real: Path, folder: Path) -> Path:
    """Compile the recording library for a CUPTI library.

    Args:
        real: The CUPTI library to which the recording library forwards.
        folder: Directory for the compiled library.

    Raises:
        UnavailableError: There is no C compiler, or it fails.
    """
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        raise UnavailableError("there is no C compiler")
    # torch may have loaded a different CUPTI under the same name. The loader treats a dependency
    # whose name contains a slash as a path, so it does not confuse our dependency with that
    # library. The linker takes the name of a dependency from its soname, so we link against an
    # empty library whose soname is the wanted path.
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
        output = str(getattr(error, "stderr", "") or error).strip().splitlines()
        raise UnavailableError(f"the C compiler fails: {output[0] if output else error}") from error


def _declared(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise UnavailableError(f"the recorder cannot be loaded: {error}") from error
    library.ttools_recorded.argtypes = (ctypes.POINTER(_Record), ctypes.c_size_t)
    library.ttools_recorded.restype = ctypes.c_size_t
    library.ttools_first_kernel.restype = ctypes.c_uint64
    library.ttools_dropped.restype = ctypes.c_uint64
    return library
