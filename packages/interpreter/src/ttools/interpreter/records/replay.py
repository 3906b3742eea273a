"""Makes recorded launches again, on memory with the recorded contents.

A recorded kernel is untrusted. Nothing else in the record is executed. The kernel cannot access
memory outside its arguments, with or without an observer, and its time is limited.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ttools.core.errors import UsageError, during
from ttools.core.records.excerpts import show
from ttools.core.records.launch_record import LaunchRecord, Record
from ttools.core.records.reading import read_record
from ttools.core.spec import CompileOptions, LaunchSpec, TensorSpec
from ttools.interpreter.abi.arguments import ArgumentPlan
from ttools.interpreter.api import interpret
from ttools.interpreter.records.record_contents import make_storage, numpy_type
from ttools.interpreter.records.record_kernels import RecordedKernel
from ttools.interpreter.records.time_limit import DEFAULT_TIMEOUT, make_limited_launch
from ttools.interpreter.run.interpretation import Run, active_run, selecting_run
from ttools.interpreter.run.kernel_launch import ExecutableKernel, KernelLaunch
from ttools.interpreter.run.variants import Variants
from ttools.ir.parser.untrusted import foreign

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ttools.core.records.launch_record import Bytes


class RecordedTensor:
    """A tensor of a record as a pointer argument.

    Attributes:
        dtype: Element type, as torch names it without the module.
        shape: Extent of each dimension.
        memory: The bytes of the storage.
    """

    def __init__(self, argument: TensorSpec, memory: Bytes) -> None:
        self._argument = argument
        self.memory = memory
        self.dtype, self.shape = argument.dtype, argument.shape

    def stride(self, dimension: int | None = None) -> Any:
        """Return the strides in elements, as `torch.Tensor.stride`."""
        strides = self._argument.strides
        return strides if dimension is None else strides[dimension]

    def element_size(self) -> int:
        """Return the size of an element in bytes."""
        return self._argument.itemsize

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return int(self.memory.ctypes.data) + self._argument.offset

    def storage_extent(self) -> tuple[int, int]:
        """Return the first address of the storage and the address after its end."""
        start = int(self.memory.ctypes.data)
        return start, start + self.memory.size

    def numpy(self) -> NDArray[Any]:
        """Return a copy of the elements.

        Elements of a type that NumPy lacks are returned as unsigned integers of the same size.
        """
        import numpy as np

        item = self._argument.itemsize
        dtype = numpy_type(self.dtype)
        if dtype is None or dtype.itemsize != item:
            dtype = np.dtype(f"u{item}")
        strides = tuple(stride * item for stride in self._argument.strides)
        # The record was checked when it was read, so all elements are inside the storage.
        view: NDArray[Any] = np.ndarray(
            self.shape, dtype, self.memory, self._argument.offset, strides
        )
        return np.array(view)


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """A launch that was made again.

    Attributes:
        launch: The launch as it was recorded.
        tensors: The contents of the tensor arguments after the launch, by name.
    """

    launch: LaunchRecord
    tensors: dict[str, np.ndarray[Any, Any]]


def replay(path: str | Path, timeout: float = DEFAULT_TIMEOUT) -> list[Replayed]:
    """Make the launches of a record again, in the recorded order.

    If a run of `interpret`, `sanitize` or `profile` is active, the launches belong to this run, and
    only launches of the kernels that the run selects are made.

    Args:
        path: Path of the record.
        timeout: Seconds after which a launch is stopped, unless the active run has a time limit; 0
            for no limit.

    Raises:
        UsageError: The file is not a record or is damaged, or its text is not TTIR as Triton prints
            it.
        KernelError: A launch has exceeded the time limit (kind `timeout`).
        UnsupportedError: A kernel uses an unsupported feature.
    """
    path = Path(path)
    record = read_record(path)
    modules: dict[str, Variants] = {}
    kernels: dict[tuple[str, CompileOptions], RecordedKernel] = {}
    made = []
    with nullcontext() if active_run() is not None else interpret():
        for number, launch in enumerate(record.launches):
            kernel = launch.spec.kernel
            run = selecting_run(kernel)
            if run is None:
                continue
            with during(f"replaying launch {number} of {path}, of kernel `{kernel}`"):
                key = launch.ttir, launch.spec.options
                recorded = kernels.setdefault(key, RecordedKernel(path, launch))
                made.append(_make(path, record, launch, modules, recorded, run, timeout))
    return made


def _make(
    path: Path,
    record: Record,
    launch: LaunchRecord,
    modules: dict[str, Variants],
    recorded: RecordedKernel,
    run: Run,
    timeout: float,
) -> Replayed:
    spec = launch.spec
    if launch.ttir not in modules:
        modules[launch.ttir] = read_kernel(path, spec.kernel, launch.ttir)
        show(record.excerpts, modules[launch.ttir].module.files())
    values = _values(record, spec)
    variants = modules[launch.ttir]
    launch_again(path, spec, launch.ttir, variants, values, run, timeout, recorded)
    tensors = {
        name: value.numpy()
        for name, value in zip(spec.names, values, strict=True)
        if isinstance(value, RecordedTensor)
    }
    return Replayed(launch=launch, tensors=tensors)


def read_kernel(source: Path, kernel: str, ttir: str) -> Variants:
    """Read a kernel from text of unknown origin.

    Args:
        source: Origin of the text for messages.
        kernel: Name of the kernel.

    Raises:
        UsageError: The text is not TTIR as Triton prints it.
        UnsupportedError: The kernel uses an unsupported feature.
    """
    # Our parser and emitter rely on properties of the text that Triton writes. This text may have a
    # different origin, so failures of the parser and emitter are reported as errors of the file.
    with foreign(ttir, f"kernel `{kernel}` of {source}"):
        return Variants(kernel, ttir)


def launch_again(
    source: Path,
    spec: LaunchSpec,
    ttir: str,
    variants: Variants,
    values: Sequence[Any],
    run: Run,
    timeout: float,
    recorded: RecordedKernel | None = None,
) -> None:
    """Make a launch of an untrusted kernel, which cannot leave the memory of its arguments.

    Args:
        source: Origin of the launch for messages.
        spec: The launch as data.
        ttir: The text of the kernel.
        variants: The kernel, as `read_kernel` returned it for this text.
        values: One argument per parameter, with memory for each tensor of `spec`.
        run: The run that the launch belongs to.
        timeout: Seconds after which the launch is stopped; 0 for no limit.
        recorded: The kernel of the record; None if the launch is not from a record.

    Raises:
        UsageError: The text is not TTIR, or its parameters are not those of `spec`.
        KernelError: The launch has exceeded the time limit (kind `timeout`).
        UnsupportedError: The kernel uses an unsupported feature.
    """
    with foreign(ttir, f"kernel `{spec.kernel}` of {source}"):
        kernel = _kernel(source, spec, variants, recorded)
        made = KernelLaunch(kernel, spec.grid, values, run)
        made.site = replace(spec.site, line=spec.site.line or str(source))
        make_limited_launch(made, timeout)


def _kernel(
    path: Path, launch: LaunchSpec, variants: Variants, recorded: RecordedKernel | None
) -> ExecutableKernel:
    plan = ArgumentPlan(launch.names, [argument.type for argument in launch.arguments])
    pointers = [kind.startswith("!tt.ptr") for kind in variants.parameters]
    if pointers != [index in plan.pointers for index in range(len(plan.types))]:
        raise UsageError(f"{path}: the kernel's parameters do not match the recorded arguments")
    return ExecutableKernel(
        name=launch.kernel,
        plan=plan,
        variants=variants,
        options=launch.options,
        record=path,
        recorded=recorded,
    )


def _values(record: Record, launch: LaunchSpec) -> Sequence[Any]:
    storages: dict[int, Bytes] = {}
    values: list[Any] = []
    for argument in launch.arguments:
        value = argument.value
        if isinstance(value, TensorSpec):
            if value.storage not in storages:
                storages[value.storage] = make_storage(record.storages[value.storage])
            values.append(RecordedTensor(value, storages[value.storage]))
        else:
            values.append(value)
    return values
