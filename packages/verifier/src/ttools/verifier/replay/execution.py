"""Executes plans: repeats the launches and operators of a candidate's call on different tensors."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from msgspec.structs import replace
from torch.utils._python_dispatch import _disable_current_modes

from ttools.core.spec import LaunchSpec, TensorSpec, tensor_on
from ttools.interpreter.records.replay import launch_again, read_kernel
from ttools.interpreter.run.interpretation import selecting_run
from ttools.verifier.cases.tensors import dtype_of, name_of
from ttools.verifier.replay.moves import MovedValues
from ttools.verifier.replay.operators import ALLOCATING, EMPTY, base_name, find_operator
from ttools.verifier.replay.plan import (
    ConstantStorage,
    InputStorage,
    Items,
    LaunchStep,
    OperatorStep,
    Plan,
    PlanError,
    Symbol,
)
from ttools.verifier.replay.tables import ConstantValues, numbers_of, whole_view
from ttools.verifier.replay.work import CONVERTING, ComputedValues, Work, most
from ttools.verifier.workers.results import WEIGHT

if TYPE_CHECKING:
    from ttools.interpreter.run.variants import Variants

#: The name that messages use for the source of a kernel.
_SOURCE = Path("the plan")
#: Integers count as data if at least the first number of different ones are too large to be
#: indices. The second number is the least value that the limit for indices may have.
_FEWEST_DATA, _LEAST_LIMIT = 8, 4096
#: Arguments count as fractional if a smaller share than this of their elements is integral.
_FEW_INTEGRAL = 0.5
#: Integer types whose elements may be data, by Triton's names.
_INTEGERS = {
    f"{sign}{bits}": getattr(torch, f"int{bits}") for sign in "iu" for bits in (16, 32, 64)
}


class Executor:
    """Executes plans that `read_plan` returned; each kernel is compiled only once for all plans.

    Args:
        timeout: Time limit of a launch in seconds.

    Attributes:
        work: Counts of the elements on which operators of the last plan computed.
        copied: Results of the last plan that an operator of torch computed: name and operator.
        finished: Results of the last plan that an operator computed from values that kernels had
            computed, see `Work.finishing`: name and operator.
        moved: Results of the last plan that torch made from arguments by moving elements: name,
            operator, whether a kernel has copied them, and the share of the elements that were
            moved.
        tables: Results of the last plan that are copies of constants: name and description.
        finished_by: Finishing steps of the last plan, each with a result that depends on it: name
            of the result, operator, number of elements, and how many elements are combined into
            one.
        computed_for: Results of the last plan, each with the number of elements on which operators
            computed for it.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._kernels: dict[str, Variants] = {}
        self.work, self._values, self._constants = Work(), ComputedValues(), ConstantValues()
        self._finishing = ComputedValues()
        self._moved = MovedValues()
        self._has_fractions = False
        self._finds_copies = True
        self.copied: list[list[str]] = []
        self.finished: list[list[str]] = []
        self.moved: list[list[Any]] = []
        self.tables: list[list[str]] = []
        self.finished_by: list[list[Any]] = []
        self.computed_for: list[list[Any]] = []

    def run(
        self,
        plan: Plan,
        tensors: dict[str, torch.Tensor],
        fill: int | None = None,
        *,
        finds_copies: bool = True,
    ) -> dict[str, Any]:
        """Execute a plan in the active run of the engine; return the results by name.

        Args:
            plan: The plan to execute.
            tensors: The arguments that are tensors, by name.
            fill: Byte with which memory is filled that operators allocate without contents; None
                for the pattern by which the checks recognise such memory.
            finds_copies: If True, an operator on values that kernels have only copied does not
                count as finishing a result. Products with zeros and ones are equal to copies by
                coincidence.

        Raises:
            PlanError: The plan does not fit these tensors, or torch rejects an operator.
            TtoolsError: A launch of the plan failed.
        """
        memory = _Memory(plan, tensors)
        self._begin(plan, tensors)
        self._finds_copies = finds_copies
        for tensor in tensors.values():
            self.work.contains_items(memory.number(tensor), tensor.element_size())
            self._moved.argument(memory.number(tensor), tensor)
        for number, step in enumerate(plan.steps):
            if isinstance(step, LaunchStep):
                self._launch(plan, step, memory)
            else:
                self._call(step, memory, number)
                if fill is not None and base_name(step.operator) in EMPTY:
                    memory.fill(step.results, fill)
        results = {
            name: memory.view(result) if isinstance(result, TensorSpec) else result
            for name, result in plan.results.items()
        }
        for name, result in results.items():
            spec = plan.results[name]
            if not isinstance(result, torch.Tensor) or not isinstance(spec, TensorSpec):
                continue
            self.finished_by += [[name, *step] for step in self.work.finishing_steps(spec.storage)]
            self.computed_for.append([name, self.work.computed_for(spec.storage)])
            if by := self._values.operator_of(result):
                self.copied.append([name, by])
            elif by := self._finishing.operator_of(result):
                self.finished.append([name, by])
            by, share = self._moved.operator_of(result)
            if by:
                self.moved.append([name, by, spec.storage in self.work.of_kernels, share])
            if spec.storage in self.work.constants:
                self.tables.append([name, "a tensor that no kernel wrote"])
            elif self._constants.contain(result):
                self.tables.append([name, "constants that the program passes to kernels"])
        return results

    def _begin(self, plan: Plan, tensors: dict[str, torch.Tensor]) -> None:
        """Discard the results of the last plan, and classify the storages of a new one."""
        self.work, self._moved = Work(), MovedValues()
        for number, storage in enumerate(plan.storages):
            if isinstance(storage, ConstantStorage):
                self.work.lift(number)
                self._moved.argument(number)
            elif isinstance(storage, InputStorage):
                self._moved.argument(number)
                if tensors[storage.argument].is_floating_point():
                    self.work.contains_floats(number)
                if storage.argument.startswith(WEIGHT):
                    self.work.receives_gradient(number)
        self._values, self.copied, self.moved, self.tables = ComputedValues(), [], [], []
        self._finishing, self.finished, self.finished_by = ComputedValues(), [], []
        self.computed_for = []
        self._constants = ConstantValues(numbers_of(plan))
        floats = [e for e in tensors.values() if e.is_floating_point() and e.numel()]
        shares = [float(_are_integral(tensor).double().mean()) for tensor in floats]
        self._has_fractions = bool(shares) and max(shares) < _FEW_INTEGRAL

    def _call(self, step: OperatorStep, memory: _Memory, number: int) -> None:
        taken = list(views_of((*step.arguments, *step.keywords.values())))
        # This is determined before the call, because the call may change the operands.
        copies = [
            view
            for view in taken
            if self._finds_copies
            and view.storage in self.work.of_kernels
            and self._moved.contains(memory.view(view))
        ]
        tensors = _call(step, memory, number)
        is_exact = self._is_exact(step, memory, tensors)
        computes = self.work.operator(
            step.operator, taken, step.results, is_exact=is_exact, copies=copies
        )
        for view, tensor in zip(step.results, tensors, strict=True):
            if computes:
                values = self._finishing if computes == "finishes" else self._values
                values.computed(step.operator, view, tensor, most(taken, step.results))
                self._moved.computed([view.storage])
            elif base_name(step.operator) in ALLOCATING:
                self._moved.argument(view.storage)
            elif taken:
                self._values.converted(taken[0], view, tensor)
                self._finishing.converted(taken[0], view, tensor)
                operands = [(operand, memory.view(operand)) for operand in taken]
                is_whole = tensor.nbytes == memory.size(view.storage)
                self._moved.moved(step.operator, operands, view, tensor, is_whole=is_whole)

    def _is_exact(self, step: OperatorStep, memory: _Memory, made: Sequence[torch.Tensor]) -> bool:
        """Return whether an operator that converts floats to integers or bools keeps the values.

        Only conversions by `to` and `copy_` are examined.
        """
        name = base_name(step.operator)
        if name not in CONVERTING:
            return False
        sources = step.arguments[name == "copy" :]  # `copy_` has its result as first operand
        source = sources[0] if sources else None
        if not isinstance(source, TensorSpec):
            return True
        floats = memory.view(source)
        if not floats.is_floating_point() or not made or made[0].is_floating_point():
            return True
        return bool((made[0].double() == floats.double()).all())

    def _launch(self, plan: Plan, step: LaunchStep, memory: _Memory) -> None:
        ttir, spec = plan.kernels[step.kernel], step.spec
        if ttir not in self._kernels:
            self._kernels[ttir] = read_kernel(_SOURCE, spec.kernel, ttir)
        effects = self._kernels[ttir].effects
        written = [
            argument.value.storage
            for index, argument in enumerate(spec.arguments)
            if isinstance(argument.value, TensorSpec)
            and (effects.unknown_writes or index in effects.written)
        ]
        for argument in spec.arguments:
            if isinstance(argument.value, TensorSpec):
                storage = argument.value.storage
                whole = whole_view(argument.value, plan.storages[storage].size)
                self._moved.load(storage, memory.view(whole))
        # A kernel may also change a constant in place, so the values are recorded before the
        # launch.
        self._constants.load(
            memory.view(whole_view(argument.value, plan.storages[argument.value.storage].size))
            for argument in spec.arguments
            if isinstance(argument.value, TensorSpec)
            and argument.value.storage in self.work.constants
        )
        storages = (e.value.storage for e in spec.arguments if isinstance(e.value, TensorSpec))
        self.work.launch(written, storages)
        self._values.launch(written)
        self._finishing.launch(written)
        self._moved.computed(written)
        values = [
            memory.view(argument.value)
            if isinstance(argument.value, TensorSpec)
            else argument.value
            for argument in spec.arguments
        ]
        run = selecting_run(spec.kernel)
        if run is None:
            raise PlanError("a plan is executed outside a run")
        fractions = self._has_fractions
        integers = _IntegerData(plan, spec, written, memory, has_fractions=fractions)
        launch_again(_SOURCE, spec, ttir, self._kernels[ttir], values, run, self._timeout)
        large = integers.large()
        for storage in integers.floats | large:
            self.work.contains_floats(storage)
        for storage in large:
            self.work.contains_items(storage, 1)  # perhaps several elements in each integer


class _IntegerData:
    """Finds integers a kernel writes that are data, such as floats that it has scaled and rounded.

    Indices, lengths and flags are smaller than the size in bytes of the plan's largest storage, so
    larger integers count as data. Such integers may also pack several elements, so that one
    operator of torch computes on all of these elements. The integers may be stored as doubles.

    Args:
        plan: The plan that is executed.
        spec: A launch that is about to be made.
        written: Numbers of the storages that it may write to.
        memory: The storages of the execution.
        has_fractions: If True, the floats among the arguments are not integral, so that integral
            doubles are data, too.

    Attributes:
        floats: Storages to which the launch writes floats.
    """

    def __init__(
        self,
        plan: Plan,
        spec: LaunchSpec,
        written: Iterable[int],
        memory: _Memory,
        *,
        has_fractions: bool,
    ) -> None:
        chosen = set(written)
        self._limit = max([_LEAST_LIMIT, *(storage.size for storage in plan.storages)])
        #: For each storage: the integers, and their values before the launch.
        self._before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.floats: set[int] = set()
        for argument in spec.arguments:
            view = argument.value
            if not isinstance(view, TensorSpec) or view.storage not in chosen:
                continue
            # Pointers to constant memory have the type `*k…`.
            pointee = argument.type.removeprefix("*").removeprefix("k")
            dtype = _INTEGERS.get(pointee)
            if pointee.startswith(("fp", "bf")):
                self.floats.add(view.storage)
            if pointee == "fp64" and has_fractions:
                dtype = torch.float64
            if dtype is not None:
                size = plan.storages[view.storage].size // dtype.itemsize
                place = replace(
                    view, offset=0, shape=(size,), strides=(1,), itemsize=dtype.itemsize,
                    dtype=name_of(dtype),
                )  # fmt: skip
                integers = memory.view(place)
                self._before[view.storage] = integers, integers.clone()

    def large(self) -> set[int]:
        """Return the storages to which the launch has written several different large integers."""
        storages = set()
        for storage, (numbers, before) in self._before.items():
            if numbers.dtype == torch.float64:
                changed = numbers[numbers.view(torch.int64) != before.view(torch.int64)]
                integral = changed[_are_integral(changed)]
                is_mostly_integral = 2 * integral.numel() >= changed.numel()
                has_many_bits = integral != integral.float().double()
                changed = integral[has_many_bits] if is_mostly_integral else integral[:0]
            else:
                changed = numbers[numbers != before].long()
            data = changed[(changed > self._limit) | (changed < -self._limit)].sort().values
            if int((data.diff() != 0).sum()) + 1 >= _FEWEST_DATA:
                storages.add(storage)
        return storages


class _Memory:
    """The storages of one execution."""

    def __init__(self, plan: Plan, tensors: dict[str, torch.Tensor]) -> None:
        self._plan = plan
        self._storages: dict[int, Any] = {}
        self._views: dict[TensorSpec, torch.Tensor] = {}
        #: The number of each storage in the plan, by its address.
        self._numbers: dict[int, int] = {}
        for number, storage in enumerate(plan.storages):
            if isinstance(storage, InputStorage):
                tensor = tensors.get(storage.argument)
                if tensor is None:
                    raise PlanError(f"there is no argument `{storage.argument[:80]}`")
                input_storage = tensor.untyped_storage()
                if input_storage.nbytes() != storage.size:
                    raise PlanError(
                        f"`{storage.argument[:80]}` has {input_storage.nbytes():,} bytes, but "
                        f"{storage.size:,} bytes in the plan"
                    )
                self._storages[number] = input_storage
            elif isinstance(storage, ConstantStorage):
                self._storages[number] = _filled(storage.data)
            if number in self._storages and not self._is_number_of(number, self._storages[number]):
                raise PlanError(f"storage {number} is another storage of the plan")

    def view(self, spec: TensorSpec) -> torch.Tensor:
        """Return the tensor that a view describes."""
        tensor = self._views.get(spec)
        if tensor is None:
            storage = self._storages[spec.storage]
            tensor = self._views[spec] = _viewed(storage, spec)
        return tensor

    def fill(self, views: Iterable[TensorSpec], byte: int) -> None:
        """Fill the storages of tensors with a byte, without an operator that checks could see."""
        for view in views:
            storage = self._storages[view.storage]
            ctypes.memset(storage.data_ptr(), byte, storage.nbytes())

    def number(self, tensor: torch.Tensor) -> int:
        """Return the number of the storage of a tensor; -1 if it is not in the plan."""
        return self._numbers.get(tensor.untyped_storage().data_ptr(), -1)

    def size(self, number: int) -> int:
        """Return the size of a storage in bytes."""
        return self._plan.storages[number].size

    def _is_number_of(self, number: int, storage: Any) -> bool:
        """Return whether memory belongs to this storage alone, so that it can be tracked."""
        is_empty = not storage.nbytes()
        return is_empty or self._numbers.setdefault(storage.data_ptr(), number) == number

    def bind(self, spec: TensorSpec, made: torch.Tensor) -> None:
        """Assign the storage of a tensor that an operator returned to its storage in the plan.

        Raises:
            PlanError: The tensor differs from its description in the plan.
        """
        storage = made.untyped_storage()
        bound = self._storages.setdefault(spec.storage, storage)
        is_same = (
            bound.data_ptr() == storage.data_ptr()
            and self._is_number_of(spec.storage, storage)
            and storage.nbytes() == self._plan.storages[spec.storage].size
            and tuple(made.shape) == spec.shape
            and (made.stride() == spec.strides or not made.numel())
            and made.dtype is dtype_of(spec.dtype)
            and made.storage_offset() == spec.element_offset
        )
        if not is_same:
            raise PlanError("it returns a different tensor than the plan specifies")


def _are_integral(floats: torch.Tensor) -> torch.Tensor:
    doubles = floats.detach().double()
    return doubles == doubles.trunc()


def _filled(data: bytes) -> Any:
    with _disable_current_modes():
        if not data:
            return torch.empty(0, dtype=torch.uint8, device="cpu").untyped_storage()
        return torch.frombuffer(bytearray(data), dtype=torch.uint8).clone().untyped_storage()


def _viewed(storage: Any, spec: TensorSpec) -> torch.Tensor:
    with _disable_current_modes(), torch.no_grad():
        # The offset of a view without elements may be anywhere; torch would enlarge the storage to
        # include it.
        tensor: torch.Tensor = tensor_on(
            storage, replace(spec, offset=0) if 0 in spec.shape else spec
        )
        return tensor


def _call(step: OperatorStep, memory: _Memory, number: int) -> list[torch.Tensor]:
    operator = find_operator(step.operator)
    if operator is None:
        raise PlanError(f"this torch has no operator `{step.operator[:80]}`")
    arguments = [_value(operand, memory) for operand in step.arguments]
    keywords = {name: _value(operand, memory) for name, operand in step.keywords.items()}
    try:
        with torch.no_grad():
            made = operator(*arguments, **keywords)
        tensors = tensors_of(made)
        if len(tensors) != len(step.results):
            raise PlanError(f"it returns {len(tensors)} tensors, not {len(step.results)}")
        for spec, tensor in zip(step.results, tensors, strict=True):
            memory.bind(spec, tensor)
        return tensors
    except PlanError as error:
        raise PlanError(f"step {number}, `{step.operator[:80]}`: {error.message}") from None
    except (RuntimeError, TypeError, ValueError, IndexError, MemoryError, OverflowError) as error:
        text = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise PlanError(f"step {number}, `{step.operator[:80]}`: {text[:200]}") from None


def _value(operand: Any, memory: _Memory) -> Any:
    if isinstance(operand, TensorSpec):
        return memory.view(operand)
    if isinstance(operand, Items):
        return [_value(item, memory) for item in operand.items]
    if isinstance(operand, Symbol):
        kind = torch.dtype if operand.type == "dtype" else torch.memory_format
        constant = getattr(torch, operand.name, None)
        if not isinstance(constant, kind):
            raise PlanError(f"torch has no {operand.type} `{operand.name[:80]}`")
        return constant
    return operand


def views_of(operands: Iterable[Any]) -> Iterator[TensorSpec]:
    """Yield the tensors among operands, in order."""
    for operand in operands:
        if isinstance(operand, TensorSpec):
            yield operand
        elif isinstance(operand, Items):
            yield from views_of(operand.items)


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Return the tensors inside lists and tuples, in order."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_of(item)]
    return []
