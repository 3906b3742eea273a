"""Counts the elements on which torch operators, rather than kernels, compute.

A wrapper of a kernel may allocate, view, copy and convert tensors, and compute tables of constants.
All other operators are counted, including those that do not compute floats: the process that
compares results decides whether the reference needs them. Integers that contain floats count as
floats: these are views of memory that contains floats, conversions of floats that change their
values, and operands of bit operators. Kernels can convert floats to integers and back, so operators
on integers that kernels wrote count as tests of floats, and as computations if the integers are too
large for indices. The elements are counted when a call is recorded, and again when its plan is
executed.

Operators of two kinds finish what kernels have computed, as wrappers often do: reductions of values
that kernels wrote, and products of such values with an upstream gradient of fewer elements. They
are counted separately, and the results that depend on each of them are tracked.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import torch

from ttools.core.spec import TensorSpec
from ttools.verifier.cases.tensors import raw_bytes
from ttools.verifier.replay.operators import (
    ALLOCATING,
    MOVING,
    REARRANGING,
    SELECTING,
    base_name,
    is_computing,
)

#: Operators that create constants. A kernel may later write to the tensors they return; see
#: `launch`.
_CONSTANT = """
arange linspace logspace scalar_tensor eye zeros zeros_like new_zeros ones ones_like
new_ones full full_like new_full
"""
_CONSTANTS = frozenset(_CONSTANT.split())
#: Operators on bits, which can compute floats that are packed in integers.
_BIT = """
bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift
__and__ __iand__ __or__ __ior__ __xor__ __ixor__ __lshift__ __ilshift__ __rshift__ __irshift__
"""
_BITS = frozenset(_BIT.split())
#: Operators whose results depend only on the order of elements.
_ORDERING = """
sort argsort topk max min amax amin aminmax argmax argmin cummax cummin maximum minimum clamp
clamp_min clamp_max unique_consecutive unique_dim _unique2
"""
ORDERS = frozenset(_ORDERING.split())
#: Operators that compare or test floats. All other operators that return integers for floats count
#: as computing.
_TESTING = """
eq ne lt le gt ge isnan isinf isfinite isposinf isneginf signbit logical_and logical_or
logical_not logical_xor any all count_nonzero nonzero equal is_nonzero allclose isclose
"""
TESTS = frozenset(_TESTING.split())
#: Operators that combine bools.
COMBINING = frozenset(["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not"])
#: Reductions that finish results.
_REDUCING = "sum mean amax amin max min prod logsumexp linalg_vector_norm norm"
REDUCTIONS = frozenset(_REDUCING.split())
#: Numbers of operations on each element in reductions that consist of several steps: `logsumexp`
#: also computes a maximum, differences and exponentials, and norms also compute squares.
_STEPS = {"logsumexp": 4, "linalg_vector_norm": 2, "norm": 2}
#: Products of matrices and vectors; the last two operands are those that are multiplied.
_MULTIPLYING = frozenset(["mm", "bmm", "addmm", "baddbmm", "mv", "dot"])
#: Reductions that return their operand's elements unchanged if all reduced axes have one element.
_UNCHANGING = frozenset(["sum", "mean", "amax", "amin", "prod", "logsumexp"])
#: Operators that convert the type of elements.
CONVERTING = frozenset(["_to_copy", "copy"])
#: Reads of single elements, and operators on single elements, are counted only from this number on.
#: Fewer are permitted, because wrappers read sizes and compute scales.
_SINGLE = 8
#: Smaller tensors are not compared, because they can be equal by coincidence.
TELLING = 8


#: The effect of an operator: none that counts, computing, or finishing what kernels have computed.
Computation: TypeAlias = Literal["", "computes", "finishes"]


class FinishingStep(NamedTuple):
    """An operator that finishes what kernels have computed.

    Attributes:
        operator: Name of the operator.
        elements: Number of elements of its largest operand or result, multiplied by the number of
            steps of which the operator consists.
        length: Number of elements that are combined into one.
    """

    operator: str
    elements: int
    length: int


class Work:
    """Counts the elements on which the operators of one call compute.

    Args:
        constants: Numbers of the storages that contain constants.

    Attributes:
        counts: For each operator, three numbers of elements, added up over its uses: elements of
            the float tensors that it computed or took out of torch; elements of the float tensors
            that it compared or tested; and elements of tensors of any kind that it computed or
            rearranged. In each use, the largest operand or result counts.
        constants: Numbers of the storages that contain constants.
        of_kernels: Numbers of the storages whose contents a kernel wrote, or an operator made from
            such contents.
        upstream: Numbers of the storages that contain the gradients which a backward pass receives,
            or what operators made from these gradients alone.
        finishing: Numbers of elements on which operators finished what kernels had computed.
    """

    def __init__(self, constants: Iterable[int] = ()) -> None:
        self.counts: dict[str, tuple[int, int, int]] = {}
        self.constants = set(constants)
        #: Storages that contained floats, even if views of them are integers.
        self._floats: set[int] = set()
        self.of_kernels: set[int] = set()
        self.upstream: set[int] = set()
        self.finishing: Counter[str] = Counter()
        self._finishing_steps: list[FinishingStep] = []
        #: For each storage: indices of the finishing steps on which its contents may depend.
        self._finished_by: dict[int, frozenset[int]] = {}
        #: Numbers of elements of the operators that computed floats, and for each storage: indices
        #: of those operators on which its contents may depend.
        self._computing_steps: list[int] = []
        self._computed_by: dict[int, frozenset[int]] = {}
        #: Size in bytes of the elements in each storage; views may combine several elements into a
        #: larger one.
        self._items: dict[int, int] = {}
        #: Number of reads of single elements, and number of operators on single elements.
        self._single: Counter[str] = Counter()

    def operator(
        self,
        operator: str,
        taken: Sequence[TensorSpec],
        made: Sequence[TensorSpec],
        *,
        is_exact: bool = True,
        copies: Collection[TensorSpec] = (),
    ) -> Computation:
        """Count an operator, and return its effect; operations on constants do not count.

        Args:
            operator: Qualified name of the operator.
            taken: Operands of the operator.
            made: Results of the operator, in new memory or in memory of an operand that it writes
                to.
            is_exact: False if a conversion changes values.
            copies: Operands whose elements kernels have only copied.
        """
        name = base_name(operator) or short_name(operator)
        storages = {view.storage for view in made}
        floats = [view for view in taken if self._has_floats(view)]
        made_floats = [view for view in made if self._has_floats(view)]
        has_integers = any(map(_is_integer, made))
        changes = [(view, result) for view in floats for result in made if _changes(view, result)]
        # Operators that copy into an existing tensor, such as `slice_scatter`, also convert.
        is_conversion = name in MOVING and name not in ALLOCATING and bool(changes)
        is_of_bits = is_conversion and any(_is_integer(view) for view, _ in changes)
        # A kernel may write integers in a float type, which its wrapper may then convert.
        of_kernel = all(view.storage in self.of_kernels for view in floats)
        is_of_kernel = any(view.storage in self.of_kernels for view in taken)
        finishes = self._finishes(name, [view for view in taken if view not in copies], taken, made)
        is_constant = bool(taken) and all(view.storage in self.constants for view in taken)
        operands = {view.storage for view in taken}
        self._depend(storages, operands)
        self.upstream -= storages
        if operands & self.upstream and operands <= self.upstream | self.constants:
            self.upstream |= storages
        self.of_kernels -= storages
        if is_constant or _makes_constants(name, taken, storages):
            self.constants |= storages
            return ""
        self.constants -= storages
        self._combine(taken, storages)
        if is_of_kernel and name not in ALLOCATING:
            self.of_kernels |= storages
        has_bits = name in _BITS and any(map(_is_integer, (*taken, *made)))
        is_changing = is_conversion and (
            is_of_bits or not (is_exact and (of_kernel or not has_integers))
        )
        is_copy = not is_computing(operator) or _is_unchanged(name, taken, made)
        if is_copy and not is_changing:
            if floats and not is_conversion and name not in ALLOCATING:  # copied bits of floats
                self._floats |= storages
            if name in REARRANGING:
                self._note(name, 0, 0, self._most(taken, made))
            return ""
        size = self._most(taken, made)
        every = size * _STEPS.get(name, 1)
        if made_floats or has_bits or is_changing or (floats and name not in TESTS):
            if finishes:
                self.finishing[name] += every
                self._finish(FinishingStep(name, every, -(-size // max(1, most(made)))), storages)
            elif size == 1:
                self._note_single("operators", short_name(operator))
            else:
                self._note(short_name(operator), every, 0, every)
                self._computing_steps.append(every)
                for storage in storages:
                    self._computed_by[storage] |= {len(self._computing_steps) - 1}
            self._floats |= {view.storage for view in made if view.dtype != "bool"}
        else:
            tested = every if is_of_kernel else self._most(floats)
            self._note(short_name(operator), 0, tested, every)
        if is_changing:
            return ""
        return "finishes" if finishes else "computes"

    def _finishes(
        self,
        name: str,
        computed: Sequence[TensorSpec],
        taken: Sequence[TensorSpec],
        made: Sequence[TensorSpec],
    ) -> bool:
        """Return whether an operator reduces what kernels computed, or scales it by a gradient."""
        own = [view for view in computed if view.storage in self.of_kernels]
        if name in REDUCTIONS:
            return len(taken) == 1 == len(own) and most(made) < most(own)
        if name != "mul" or len(taken) != 2 or len(own) != 1:
            return False
        (other,) = (view for view in taken if view is not own[0])
        return other.storage in self.upstream and most([other]) < most(own)

    @property
    def floats(self) -> int:
        """Return the number of floats on which operators computed, without those they selected."""
        return sum(count for name, (count, *_) in self.counts.items() if name not in SELECTING)

    def launch(self, storages: Iterable[int], read: Iterable[int] = ()) -> None:
        """Record that a kernel writes to storages.

        Args:
            storages: Numbers of the storages that it writes to.
            read: Numbers of the storages that it may read.
        """
        written = set(storages)
        self._depend(written, written.union(read))
        self.constants -= written
        self.upstream -= written
        self.of_kernels |= written

    def finishing_steps(self, storage: int) -> list[FinishingStep]:
        """Return the finishing steps on which the contents of a storage may depend."""
        return [self._finishing_steps[n] for n in sorted(self._finished_by.get(storage, ()))]

    def computed_for(self, storage: int) -> int:
        """Return on how many elements operators computed floats for the contents of a storage."""
        return sum(self._computing_steps[n] for n in self._computed_by.get(storage, ()))

    def _depend(self, storages: Iterable[int], operands: Iterable[int]) -> None:
        """Record that the contents of storages depend on those of operands."""
        written, read = tuple(storages), tuple(operands)
        for steps_by in (self._finished_by, self._computed_by):
            steps = frozenset[int]().union(*(steps_by.get(n, ()) for n in read))
            steps_by.update(dict.fromkeys(written, steps))

    def _finish(self, step: FinishingStep, storages: Iterable[int]) -> None:
        self._finishing_steps.append(step)
        number = len(self._finishing_steps) - 1
        for storage in storages:
            self._finished_by[storage] |= {number}

    def leave(self, name: str, views: Sequence[TensorSpec]) -> None:
        """Count elements that leave torch, because the program can compute with them elsewhere."""
        if name == "_local_scalar_dense":
            if any(map(_is_float, views)):
                self._note_single("reads", name)
        else:
            self._note(name, most(filter(_is_float, views)), 0, most(views))

    def contains_items(self, storage: int, size: int) -> None:
        """Record the element size of a storage in bytes; the smallest recorded size is kept."""
        self._items[storage] = min(size, self._items.get(storage, size))

    def contains_floats(self, storage: int) -> None:
        """Record in advance that a storage contains floats.

        Other storages are recorded when a tensor of floats in them is used.
        """
        self._floats.add(storage)

    def receives_gradient(self, storage: int) -> None:
        """Record that a storage contains a gradient that a backward pass receives."""
        self.upstream.add(storage)

    def lift(self, storage: int) -> None:
        """Record that a storage contains numbers that the program gave to torch."""
        self.constants.add(storage)

    def _most(self, *views: Iterable[TensorSpec]) -> int:
        """Return the size of the largest tensor; elements that a view combines count separately."""
        counts = [math.prod(view.shape) * self._ratio(view) for part in views for view in part]
        return max(counts, default=0)

    def _ratio(self, view: TensorSpec) -> int:
        """Return how many elements each element of a view combines, such as 8 bytes in an int64."""
        return max(1, view.itemsize // self._items.get(view.storage, view.itemsize))

    def _combine(self, taken: Sequence[TensorSpec], storages: Iterable[int]) -> None:
        """Record that storages contain the elements that views of operands combine, if any."""
        sizes = [self._items[view.storage] for view in taken if self._ratio(view) > 1]
        for storage in storages if sizes else ():
            self.contains_items(storage, min(sizes))

    def _has_floats(self, view: TensorSpec) -> bool:
        """Return whether a tensor has floats, or integers in memory that contained floats."""
        if _is_float(view):
            self._floats.add(view.storage)
        return view.storage in self._floats

    def _note_single(self, kind: str, name: str) -> None:
        """Count the use of a single element, but only once there are many uses of this kind."""
        self._single[kind] += 1
        if self._single[kind] >= _SINGLE:
            count = _SINGLE if self._single[kind] == _SINGLE else 1
            self._note(name, count, 0, count)

    def _note(self, name: str, floats: int, tested: int, every: int) -> None:
        counts = self.counts.get(name, (0, 0, 0))
        one, two, three = map(sum, zip(counts, (floats, tested, every), strict=True))
        self.counts[name] = one, two, three


def multiplications(operator: str, taken: Sequence[TensorSpec], made: Sequence[TensorSpec]) -> int:
    """Return the number of multiplications in a product of matrices; 0 for other operators."""
    if base_name(operator) not in _MULTIPLYING or len(taken) < 2 or not taken[-2].shape:
        return 0
    return most(made) * taken[-2].shape[-1]


class ComputedValues:
    """The tensors that operators computed, which are searched for in the results of a call."""

    def __init__(self) -> None:
        self._operators: dict[bytes, str] = {}
        #: For each storage: the operator that computed its floats.
        self._floats: dict[int, str] = {}

    def computed(self, operator: str, view: TensorSpec, tensor: torch.Tensor, every: int) -> None:
        """Remember a tensor that an operator computed.

        Small tensors of integers are left out, because they can be equal by coincidence.

        Args:
            operator: Qualified name of the operator.
            view: Place of the tensor in the plan's storages.
            tensor: The tensor with the elements.
            every: Number of elements of the operator's largest operand or result.
        """
        is_float = _is_float(view)
        if (every if is_float else tensor.numel()) >= TELLING:
            self._operators.setdefault(_digest(tensor), short_name(operator))
            if is_float:
                self._floats[view.storage] = short_name(operator)

    def converted(self, taken: TensorSpec, view: TensorSpec, tensor: torch.Tensor) -> None:
        """Remember a converted copy of floats, if an operator computed the floats."""
        operator = self._floats.get(taken.storage)
        if operator is not None and _is_float(view):
            self._operators.setdefault(_digest(tensor), operator)

    def launch(self, storages: Iterable[int]) -> None:
        """Forget the storages that a kernel writes to."""
        for storage in storages:
            self._floats.pop(storage, None)

    def operator_of(self, result: torch.Tensor) -> str:
        """Return the operator that computed a result; empty if none did, or if it is trivial."""
        is_float = result.is_floating_point() or result.is_complex()
        if (result.numel() < TELLING and not is_float) or is_trivial(result):
            return ""
        return self._operators.get(_digest(result), "")


def short_name(operator: str) -> str:
    """Return the name of an operator without torch's namespace and the overload."""
    return operator.removeprefix("aten::").partition(".")[0]


def most(*views: Iterable[TensorSpec]) -> int:
    """Return the number of elements of the largest tensor."""
    return max((math.prod(view.shape) for part in views for view in part), default=0)


def _makes_constants(name: str, taken: Sequence[TensorSpec], storages: set[int]) -> bool:
    """Return whether an operator fills new memory with values that depend on no tensor.

    Two calls for which it returns False are `full(…, out=y[:1])`, which writes to a part of a
    tensor, and `linspace` between two tensors.
    """
    if name not in _CONSTANTS or not storages.isdisjoint(view.storage for view in taken):
        return False
    return not taken or name.startswith("new_") or name.endswith("_like")


def _is_unchanged(name: str, taken: Sequence[TensorSpec], made: Sequence[TensorSpec]) -> bool:
    """Return whether an operator reduces only axes of one element, so that it copies its operand.

    Wrappers add up the partial results of programs even if there is only one program.
    """
    if name not in _UNCHANGING or len(taken) != 1 or len(made) != 1:
        return False
    operand, result = taken[0], made[0]
    is_of_type = operand.dtype == result.dtype or (_is_float(operand) and _is_float(result))
    return is_of_type and math.prod(operand.shape) == math.prod(result.shape)


def _changes(view: TensorSpec, result: TensorSpec) -> bool:
    """Return whether a conversion of floats, or of the bits of floats, changes the kind of type."""
    return view.dtype != result.dtype and not (_is_float(view) and _is_float(result))


def _is_float(view: TensorSpec) -> bool:
    return view.dtype.startswith(("float", "bfloat", "complex"))


def _is_integer(view: TensorSpec) -> bool:
    return view.dtype.startswith(("int", "uint"))


def is_trivial(result: torch.Tensor) -> bool:
    """Return whether a result is empty, has only equal elements, or is one round number."""
    plain = result.detach().reshape(-1)
    if not plain.numel():
        return True
    return bool((plain == plain[0]).all()) and (plain.numel() > 1 or _is_round(plain[0]))


def _is_round(value: torch.Tensor) -> bool:
    """Return whether a number is integral or not finite, as results often are by coincidence."""
    number = complex(value.item())
    return number.imag == 0 and (not math.isfinite(number.real) or number.real.is_integer())


def _digest(tensor: torch.Tensor) -> bytes:
    head = f"{tensor.dtype}{tensor.numel()}".encode()
    return hashlib.sha256(head + raw_bytes(tensor)).digest()
