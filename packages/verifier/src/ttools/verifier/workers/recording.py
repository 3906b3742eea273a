"""Records the plan of a call: the launches and operators that produced its results.

The recorder runs in the candidate's process, so a plan is only a claim of the candidate, and the
process that executes the plan does not trust it. Tensors are recorded as views of storages. A
storage that no recorded operator made is a constant, with the bytes that it contains when it is
first used. The recorder also counts the elements on which operators compute, even if the call has
no plan. For each storage, it keeps track of the arguments on which the contents may depend. A plan
can therefore list the arguments whose elements the program reads on the host, because later steps
may depend on them.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from msgspec.structs import replace
from torch.multiprocessing.reductions import StorageWeakRef

from ttools.core.spec import ObjectSpec, TensorSpec
from ttools.interpreter.run.kernel_launch import KernelLaunch
from ttools.verifier.cases.tensors import name_of
from ttools.verifier.replay.execution import tensors_of
from ttools.verifier.replay.operators import OPERATORS, base_name
from ttools.verifier.replay.plan import (
    ConstantStorage,
    InputStorage,
    Items,
    LaunchStep,
    MadeStorage,
    OperatorStep,
    Plan,
    PlanError,
    Step,
    Storage,
    Symbol,
    read_plan,
    structure_of,
    write_plan,
)
from ttools.verifier.replay.work import Work, multiplications
from ttools.verifier.workers.results import WEIGHT

#: Limit on the total size in bytes of all constants of a call; plans that exceed it are not
#: recorded.
_MOST_CONSTANTS = 1 << 26
#: Operands that choose where a tensor is stored. They are left out, because plans are executed in
#: host memory.
_PLACES = frozenset(["device", "layout", "pin_memory", "non_blocking"])
#: Operators that only change the view of a tensor. They are not recorded, because each operand is
#: recorded as a view.
_VIEWING = frozenset(["aten::set_", "aten::detach_", "aten::as_strided_", "aten::t_"])
_VIEWING |= {"aten::transpose_", "aten::squeeze_", "aten::unsqueeze_"}


class PlanRecorder:
    """Records one call.

    Args:
        arguments: Names and values of the arguments that are tensors.
        is_on_host: If True, all tensors are in host memory. If False, the bytes of constants are
            not read, and there is no plan.

    Attributes:
        work: Counts of the elements on which operators computed.
        structure: Digest of the plan, see `structure_of`; empty if there is no plan, or if the
            program reads elements on the host, because the plan may then depend on these elements.
    """

    def __init__(
        self, arguments: Iterable[tuple[str, torch.Tensor]], *, is_on_host: bool = True
    ) -> None:
        self.structure = b""
        self._lock = threading.RLock()
        self._storages: list[Storage] = []
        #: For each address: the number and size of the storage, and a weak reference to it.
        self._known: dict[int, tuple[int, int, StorageWeakRef | None]] = {}
        self._kernels: dict[str, int] = {}
        #: Steps, each with the storages that it writes to and the storages that it reads. If a step
        #: cannot be executed as part of a plan, a text with the reason takes its place.
        self._steps: list[tuple[Step | str, set[int], set[int]]] = []
        #: For each step, by index: the number of floats that its operator computes.
        self._floats: dict[int, int] = {}
        #: For each step, by index: the number of operations; in products of matrices, each
        #: multiplication counts.
        self._operations: dict[int, int] = {}
        #: For each storage: names of the arguments on which its contents may depend.
        self._sources: dict[int, frozenset[str]] = {}
        self._names: dict[int, list[str]] = {}
        #: Names of the arguments without memory, which cannot be found by their address.
        self._empty: set[str] = set()
        self._reads: set[str] = set()
        self._constant_bytes = 0
        self._refused, self._is_paused = "", False
        self.work = Work()
        if not is_on_host:
            self._refuse("tensors are not in host memory")
        self.take(arguments)

    def take(self, arguments: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Add tensors that the program receives and whose values differ from call to call."""
        for name, tensor in arguments:
            if not has_memory(tensor):
                continue
            storage = tensor.untyped_storage()
            number = self._find(storage)
            if number is None:
                number = self._add(InputStorage(name, storage.nbytes()), storage)
            self._names.setdefault(number, []).append(name)
            self.work.contains_items(number, tensor.element_size())
            if tensor.is_floating_point():
                self.work.contains_floats(number)
            if name.startswith(WEIGHT):
                self.work.receives_gradient(number)
            self._sources[number] = frozenset(self._names[number])
            if not storage.nbytes():
                self._empty.add(name)

    # ---- what the program does
    def operator(self, func: Any, args: Any, kwargs: Any) -> _Call | None:
        """Record an operator that is about to run; pass its result to `_Call.returned`."""
        with self._lock:
            if self._is_paused or func._schema.name.partition(".")[0] in _VIEWING:
                return None
            return _Call(self, func, args, kwargs)

    @contextmanager
    def launch(self, launch: KernelLaunch) -> Iterator[None]:
        """Record a launch; operators that the engine runs in this context are not recorded."""
        with self._lock:
            try:
                self._launched(launch)
            except PlanError as error:
                self._refuse(error.message)
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def read(self, tensors: Iterable[torch.Tensor]) -> None:
        """Record that the program reads the elements of tensors on the host."""
        with self._lock:
            for tensor in tensors:
                if not self._is_paused and has_memory(tensor):
                    number = self._find(tensor.untyped_storage())
                    self._reads |= self._sources.get(-1 if number is None else number, frozenset())

    def leave(self, name: str, tensors: Iterable[torch.Tensor]) -> None:
        """Count elements that an operator or function takes out of torch."""
        with self._lock:
            if not self._is_paused:
                self.work.leave(name, [_described(tensor, -1) for tensor in tensors])

    def plan(self, results: Sequence[tuple[str, Any]]) -> tuple[bytes, str]:
        """Return the plan of the call; if there is none, no bytes and the reason.

        Args:
            results: Parts of the result by name.
        """
        with self._lock:
            try:
                if self._refused:
                    raise PlanError(self._refused)
                plan = self._finished(results)
                data = write_plan(plan)
                read_plan(data)  # if a plan broke a rule, the replayer would call it forged
                self.structure = b"" if plan.reads else structure_of(plan)
                return data, ""
            except PlanError as error:
                return b"", error.message

    def sources_of(self, tensor: torch.Tensor) -> frozenset[str]:
        """Return the names of the arguments on which the elements of a tensor may depend."""
        number = self._find(tensor.untyped_storage()) if has_memory(tensor) else None
        return frozenset() if number is None else self._sources[number]

    def work_of(self, tensor: torch.Tensor) -> tuple[int, int]:
        """Return how much operators computed for the elements of a tensor.

        Returns:
            The number of floats, and the number of operations. In a product of matrices, each
            multiplication counts as one operation; for all other operators, the computation of each
            float does.
        """
        number = self._find(tensor.untyped_storage()) if has_memory(tensor) else None
        needed, floats, operations = {number}, 0, 0
        for index in range(len(self._steps) - 1, -1, -1):
            _, written, read = self._steps[index]
            if written & needed:
                needed |= read
                floats += self._floats.get(index, 0)
                operations += self._operations.get(index, 0)
        return floats, operations

    @property
    def operations(self) -> int:
        """Return the number of operations of all steps, see `work_of`."""
        return sum(self._operations.values())

    def finished_by(self, parts: Iterable[tuple[str, Any]]) -> list[list[Any]]:
        """Return the finishing steps on which results depend, see `Executor.finished_by`."""
        with self._lock:
            return [
                [name, *step]
                for name, part in parts
                if isinstance(part, torch.Tensor) and has_memory(part)
                for step in self.work.finishing_steps(self._number(part))
            ]

    def _number(self, tensor: torch.Tensor) -> int:
        number = self._find(tensor.untyped_storage())
        return -1 if number is None else number

    # ---- storages
    def _find(self, storage: Any) -> int | None:
        address, size = storage.data_ptr(), storage.nbytes()
        entry = self._known.get(address)
        if entry is None or entry[1] != size:
            return None
        return None if _has_ended(entry[2]) else entry[0]

    def _add(self, storage: Storage, live: Any) -> int:
        self._storages.append(storage)
        number = len(self._storages) - 1
        if live.nbytes():
            self._known[live.data_ptr()] = number, live.nbytes(), StorageWeakRef(live)  # type: ignore[no-untyped-call]
        self._sources[number] = frozenset()
        return number

    def _add_constant(self, address: int, size: int, live: Any) -> int:
        self._constant_bytes += size
        if self._constant_bytes > _MOST_CONSTANTS:
            self._refuse("tensors from outside the call are too large to be recorded")
        data = ctypes.string_at(address, size) if size and not self._refused else b""
        self._storages.append(ConstantStorage(data))
        number = len(self._storages) - 1
        if size:
            alive = None if live is None else StorageWeakRef(live)  # type: ignore[no-untyped-call]
            self._known[address] = number, size, alive
        self._sources[number] = frozenset() if size else frozenset(self._empty)
        return number

    def view(self, tensor: torch.Tensor, *, is_made: bool = False) -> TensorSpec:
        """Describe a tensor.

        Args:
            is_made: If True, an operator has just returned the tensor, so its storage may be new.

        Raises:
            PlanError: The tensor is not a plain strided tensor with memory.
        """
        if not has_memory(tensor):
            raise PlanError("a tensor is sparse, quantized, conjugated or without memory")
        storage = tensor.untyped_storage()
        number = self._find(storage)
        if number is None and is_made:
            number = self._add(MadeStorage(storage.nbytes()), storage)
        elif number is None:
            number = self._add_constant(storage.data_ptr(), storage.nbytes(), storage)
        return _described(tensor, number)

    # ---- steps
    def _refuse(self, reason: str) -> None:
        """Record why the call has no plan."""
        self._refused = self._refused or reason

    def add_step(self, step: Step | str, written: set[int], read: set[int]) -> None:
        """Add a step with the storages that it writes and reads.

        Args:
            step: The step, or the reason why it cannot be executed.
            written: Numbers of the storages that it writes to.
            read: Numbers of the storages that it reads.
        """
        self._steps.append((step, written, read))
        sources = frozenset[str]().union(*(self._sources[number] for number in read | written))
        for number in written:
            self._sources[number] = sources

    def _launched(self, launch: KernelLaunch) -> None:
        kernel = launch.kernel
        if not kernel.variants.addresses.is_empty:
            raise PlanError(f"kernel `{kernel.name}` takes addresses from memory")
        arguments, numbers = [], {}
        for index, argument in enumerate(launch.spec.arguments):
            if argument.value is not None and index in kernel.plan.pointers:
                view = self._pointer(launch, index)
                numbers[index] = view.storage
                argument = replace(argument, value=view)
            elif isinstance(argument.value, ObjectSpec):
                raise PlanError(f"argument `{argument.name}` of `{kernel.name}` is an object")
            arguments.append(argument)
        effects = kernel.variants.effects
        read = set(numbers.values())
        is_known = not effects.unknown_writes
        written = {numbers[n] for n in effects.written if n in numbers} if is_known else read
        spec = replace(launch.signature, arguments=tuple(arguments))
        number = self._kernels.setdefault(kernel.variants.ttir, len(self._kernels))
        self.work.launch(written, read)
        self.add_step(LaunchStep(number, spec), set(written), read)

    def _pointer(self, launch: KernelLaunch, index: int) -> TensorSpec:
        argument = launch.arguments[index]
        if isinstance(argument, torch.Tensor):
            return self.view(argument)
        memory = launch.memory(index)
        if memory is None:
            raise PlanError(f"a pointer of `{launch.kernel.name}` is an address, not a tensor")
        size = memory.storage_bytes or 0
        entry = self._known.get(memory.storage)
        if entry is None or entry[1] != size or _has_ended(entry[2]):
            base = getattr(argument, "base", None)
            live = base.untyped_storage() if isinstance(base, torch.Tensor) else None
            number = self._add_constant(memory.storage, size, live)
        else:
            number = entry[0]
        # Torch may not have the element type; the executor takes the type from the kernel's
        # parameters.
        return TensorSpec(
            storage=number, offset=memory.offset, shape=memory.shape, strides=memory.strides,
            dtype=f"uint{memory.itemsize * 8}", itemsize=memory.itemsize,
        )  # fmt: skip

    def _finished(self, results: Sequence[tuple[str, Any]]) -> Plan:
        outputs: dict[str, Any] = {}
        for name, value in results:
            if isinstance(value, torch.Tensor):
                outputs[name] = self.view(value)
            elif value is None or isinstance(value, (bool, int, float, str)):
                outputs[name] = value
            else:
                raise PlanError(f"{name} is a {type(value).__name__}")
        needed = {
            n for n, storage in enumerate(self._storages) if isinstance(storage, InputStorage)
        }
        needed |= {output.storage for output in outputs.values() if isinstance(output, TensorSpec)}
        kept: list[Step] = []
        for step, written, read in reversed(self._steps):
            if not isinstance(step, LaunchStep) and not written & needed:
                continue
            if isinstance(step, str):
                raise PlanError(step)
            needed |= read
            kept.append(step)
        for step in kept:
            if isinstance(step, OperatorStep) and base_name(step.operator) not in OPERATORS:
                raise PlanError(f"operator `{step.operator}` is not among those that are replayed")
        storages = tuple(
            ConstantStorage(b"")
            if isinstance(storage, ConstantStorage) and n not in needed
            else storage
            for n, storage in enumerate(self._storages)
        )
        kernels = tuple(self._kernels)
        return Plan(storages, kernels, tuple(reversed(kept)), outputs, tuple(sorted(self._reads)))


class _Call:
    """A call of an operator that has not returned yet."""

    def __init__(self, recorder: PlanRecorder, func: Any, args: Any, kwargs: Any) -> None:
        self._recorder, self._name = recorder, func.name()
        self._read: set[int] = set()
        self._taken: list[TensorSpec] = []
        self._problem = ""
        names = [parameter.name for parameter in func._schema.arguments]
        positional = [
            None if name in _PLACES else self._operand(operand)
            for name, operand in zip(names, args, strict=False)
        ]
        self._arguments = tuple(positional)
        self._keywords = {
            name: self._operand(operand) for name, operand in kwargs.items() if name not in _PLACES
        }
        written = tensors_of(written_by(func, args, kwargs))
        self._written = [self._view(tensor) for tensor in written]

    def _operand(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            view = self._view(value)
            self._taken.append(view)
            return view
        if isinstance(value, (list, tuple)):
            return Items(tuple(map(self._operand, value)))
        if isinstance(value, torch.dtype):
            return Symbol("dtype", name_of(value))
        if isinstance(value, torch.memory_format):
            return Symbol("memory_format", str(value).removeprefix("torch."))
        if isinstance(value, (torch.device, torch.layout)):
            return None
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        self._problem = f"operator `{self._name}` gets a {type(value).__name__}"
        return None

    def _view(self, tensor: torch.Tensor, *, is_made: bool = False) -> TensorSpec:
        """Describe a tensor; a tensor that no plan can contain gets storage -1."""
        try:
            view = self._recorder.view(tensor, is_made=is_made)
        except PlanError as error:
            self._problem = error.message
            return _described(tensor, -1)
        if not is_made:
            self._read.add(view.storage)
        return view

    def returned(self, result: Any) -> None:
        """Add the step, unless the operator only returned views of its operands."""
        recorder = self._recorder
        with recorder._lock:
            results = tuple(self._view(tensor, is_made=True) for tensor in tensors_of(result))
            changed = [view for view in results if view.storage not in self._read] + self._written
            if any(view.storage < 0 for view in self._written):
                recorder._refuse(self._problem)
            if changed:
                before = recorder.work.floats
                made = results or self._written
                recorder.work.operator(self._name, self._taken, made)
                floats = recorder.work.floats - before
                products = multiplications(self._name, self._taken, made)
                recorder._floats[len(recorder._steps)] = floats
                recorder._operations[len(recorder._steps)] = max(floats, products)
                step = OperatorStep(self._name, self._arguments, self._keywords, results)
                written = {view.storage for view in changed}
                recorder.add_step(self._problem or step, written - {-1}, self._read)
            elif self._name == "aten::lift_fresh":
                recorder.work.lift(results[0].storage)


def has_memory(tensor: torch.Tensor) -> bool:
    """Return whether a tensor is a plain strided tensor with memory."""
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.device.type == "meta":
        return False
    storage = tensor.untyped_storage()
    return not (
        tensor.is_conj() or tensor.is_neg() or (storage.nbytes() and not storage.data_ptr())
    )


def _described(tensor: torch.Tensor, storage: int) -> TensorSpec:
    item, has_place = tensor.element_size(), storage >= 0
    return TensorSpec(
        storage=storage,
        offset=int(tensor.storage_offset()) * item if has_place and tensor.numel() else 0,
        shape=tuple(tensor.shape),
        strides=tuple(tensor.stride()) if has_place else (0,) * tensor.dim(),
        dtype=name_of(tensor.dtype),
        itemsize=item,
    )


def written_by(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """Return the arguments to which an operator writes."""
    written: list[Any] = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            if argument.name in kwargs:
                written.append(kwargs[argument.name])
            elif position < len(args):
                written.append(args[position])
    return written


def _has_ended(storage: StorageWeakRef | None) -> bool:
    """Return whether a storage was freed, so that a different storage may have its address."""
    return storage is not None and bool(storage.expired())  # type: ignore[no-untyped-call]
