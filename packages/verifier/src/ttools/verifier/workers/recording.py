"""Records the plan of a call: the launches and operators that made its results.

Runs in the candidate's process, so a plan is a claim of the candidate; the process that executes it
trusts none of it. Tensors are recorded as views of storages. A storage that no recorded operator
made is a constant, with the bytes that it has when it is used first. For each storage, the
recorder follows which arguments its content may depend on. So it knows of which arguments the
program looks at elements on the host, where its next steps may depend on them.
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
    write_plan,
)
from ttools.verifier.workers.filled import written_by

#: Most bytes of constants; more are not recorded.
_MOST_CONSTANTS = 1 << 26
#: Operands of operators that say where a tensor lies; a plan is executed in the host's memory.
_PLACES = frozenset(["device", "layout", "pin_memory", "non_blocking"])
#: Operators that change which memory a tensor has; each operand says that by itself.
_VIEWING = frozenset(["aten::set_", "aten::detach_", "aten::as_strided_", "aten::t_"])
_VIEWING |= {"aten::transpose_", "aten::squeeze_", "aten::unsqueeze_"}


class PlanRecorder:
    """Records one call.

    Args:
        arguments: Those that are tensors, by name.
    """

    def __init__(self, arguments: Iterable[tuple[str, torch.Tensor]]) -> None:
        self._lock = threading.RLock()
        self._storages: list[Storage] = []
        #: By address: number and size of a storage, and what stands for it while it lives.
        self._known: dict[int, tuple[int, int, StorageWeakRef | None]] = {}
        self._kernels: dict[str, int] = {}
        #: Steps with the storages that each writes to and reads; text says why there is no step.
        self._steps: list[tuple[Step | str, set[int], set[int]]] = []
        #: By storage: names of the arguments that its content may depend on.
        self._sources: dict[int, frozenset[str]] = {}
        self._names: dict[int, list[str]] = {}
        self._reads: set[str] = set()
        self._constant_bytes = 0
        self._refused, self._is_paused = "", False
        for name, tensor in arguments:
            storage = tensor.untyped_storage()
            known = self._find(storage)
            if known is None:
                known = self._add(InputStorage(name, storage.nbytes()), storage)
            self._names.setdefault(known, []).append(name)
            self._sources[known] = frozenset(self._names[known])

    # ---- what the program does
    def operator(self, func: Any, args: Any, kwargs: Any) -> _Call | None:
        """Take an operator that is about to run; its result goes to `_Call.returned`."""
        with self._lock:
            if self._refused or self._is_paused or func._schema.name.partition(".")[0] in _VIEWING:
                return None
            try:
                return _Call(self, func, args, kwargs)
            except PlanError as error:
                self._refused = error.message
                return None

    @contextmanager
    def launch(self, launch: KernelLaunch) -> Iterator[None]:
        """Take a launch that is made inside of the context, whose operators are the engine's."""
        with self._lock:
            if not self._refused:
                try:
                    self._launched(launch)
                except PlanError as error:
                    self._refused = error.message
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def read(self, tensors: Iterable[torch.Tensor]) -> None:
        """Note that the program looks at the elements of tensors on the host."""
        with self._lock:
            for each in tensors:
                if not self._refused and not self._is_paused:
                    number = self._find(each.untyped_storage())
                    self._reads |= self._sources.get(-1 if number is None else number, frozenset())

    def plan(self, results: Sequence[tuple[str, Any]]) -> tuple[bytes, str]:
        """Return the plan of the call; if there is none, no bytes and the reason.

        Args:
            results: Parts of the result by name.
        """
        with self._lock:
            try:
                if self._refused:
                    raise PlanError(self._refused)
                data = write_plan(self._finished(results))
                read_plan(data)  # one that breaks a rule counts as forged
                return data, ""
            except PlanError as error:
                return b"", error.message

    # ---- storages
    def _find(self, storage: Any) -> int | None:
        address, size = storage.data_ptr(), storage.nbytes()
        known = self._known.get(address)
        if known is None or known[1] != size:
            return None
        return None if _has_ended(known[2]) else known[0]

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
            raise PlanError("tensors from outside of the call are too large to be recorded")
        data = ctypes.string_at(address, size) if size else b""
        self._storages.append(ConstantStorage(data))
        number = len(self._storages) - 1
        if size:
            alive = None if live is None else StorageWeakRef(live)  # type: ignore[no-untyped-call]
            self._known[address] = number, size, alive
        self._sources[number] = frozenset()
        return number

    def view(self, tensor: torch.Tensor, *, is_made: bool = False) -> TensorSpec:
        """Describe a tensor.

        Args:
            is_made: If True, an operator has just returned it, so that its storage may be new.

        Raises:
            PlanError: It is no ordinary tensor.
        """
        if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_conj():
            raise PlanError("a tensor is sparse, quantized or conjugated")
        if tensor.is_neg() or tensor.device.type == "meta":
            raise PlanError("a tensor has no memory of its own")
        storage, item = tensor.untyped_storage(), tensor.element_size()
        number = self._find(storage)
        if number is None and is_made:
            number = self._add(MadeStorage(storage.nbytes()), storage)
        elif number is None:
            number = self._add_constant(storage.data_ptr(), storage.nbytes(), storage)
        return TensorSpec(
            storage=number,
            offset=int(tensor.storage_offset()) * item if tensor.numel() else 0,
            shape=tuple(tensor.shape),
            strides=tuple(tensor.stride()),
            dtype=name_of(tensor.dtype),
            itemsize=item,
        )

    # ---- steps
    def add_step(self, step: Step | str, written: set[int], read: set[int]) -> None:
        """Add a step that reads and writes storages, or why it cannot be one."""
        self._steps.append((step, written, read))
        sources = frozenset[str]().union(*(self._sources[each] for each in read | written))
        for each in written:
            self._sources[each] = sources

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
        self.add_step(LaunchStep(number, spec), set(written), read)

    def _pointer(self, launch: KernelLaunch, index: int) -> TensorSpec:
        argument = launch.arguments[index]
        if isinstance(argument, torch.Tensor):
            return self.view(argument)
        memory = launch.memory(index)
        if memory is None:
            raise PlanError(f"a pointer of `{launch.kernel.name}` is an address, not a tensor")
        size = memory.storage_bytes or 0
        known = self._known.get(memory.storage)
        if known is None or known[1] != size or _has_ended(known[2]):
            base = getattr(argument, "base", None)
            live = base.untyped_storage() if isinstance(base, torch.Tensor) else None
            number = self._add_constant(memory.storage, size, live)
        else:
            number = known[0]
        # Its type may be one of Triton's only; the kernel's parameters say what is read.
        return TensorSpec(
            storage=number, offset=memory.offset, shape=memory.shape, strides=memory.strides,
            dtype=f"uint{memory.itemsize * 8}", itemsize=memory.itemsize,
        )  # fmt: skip

    def _finished(self, results: Sequence[tuple[str, Any]]) -> Plan:
        found: dict[str, Any] = {}
        for name, value in results:
            if isinstance(value, torch.Tensor):
                found[name] = self.view(value)
            elif value is None or isinstance(value, (bool, int, float, str)):
                found[name] = value
            else:
                raise PlanError(f"{name} is a {type(value).__name__}")
        needed = {n for n, each in enumerate(self._storages) if isinstance(each, InputStorage)}
        needed |= {each.storage for each in found.values() if isinstance(each, TensorSpec)}
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
            ConstantStorage(b"") if isinstance(each, ConstantStorage) and n not in needed else each
            for n, each in enumerate(self._storages)
        )
        kernels = tuple(self._kernels)
        return Plan(storages, kernels, tuple(reversed(kept)), found, tuple(sorted(self._reads)))


class _Call:
    """An operator between its call and its return."""

    def __init__(self, recorder: PlanRecorder, func: Any, args: Any, kwargs: Any) -> None:
        self._recorder, self._name = recorder, func.name()
        self._read: set[int] = set()
        self._problem = ""
        names = [each.name for each in func._schema.arguments]
        positional = [
            None if name in _PLACES else self._operand(each)
            for name, each in zip(names, args, strict=False)
        ]
        self._arguments = tuple(positional)
        self._keywords = {
            name: self._operand(each) for name, each in kwargs.items() if name not in _PLACES
        }
        self._written = {
            recorder.view(each).storage for each in tensors_of(written_by(func, args, kwargs))
        }

    def _operand(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            view = self._recorder.view(value)
            self._read.add(view.storage)
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

    def returned(self, result: Any) -> None:
        """Add the step, unless the operator only returned views of its operands."""
        recorder = self._recorder
        with recorder._lock:
            if recorder._refused:
                return
            try:
                self._add(tensors_of(result))
            except PlanError as error:
                recorder._refused = error.message

    def _add(self, made: list[torch.Tensor]) -> None:
        recorder = self._recorder
        if not made and not self._written:
            return
        results = tuple(recorder.view(each, is_made=True) for each in made)
        new = {each.storage for each in results} - self._read
        if new or self._written:
            step = OperatorStep(self._name, self._arguments, self._keywords, results)
            recorder.add_step(self._problem or step, new | self._written, self._read)


def _has_ended(storage: StorageWeakRef | None) -> bool:
    """Return whether a storage is gone, so that its address may be another one's."""
    return storage is not None and bool(storage.expired())  # type: ignore[no-untyped-call]
