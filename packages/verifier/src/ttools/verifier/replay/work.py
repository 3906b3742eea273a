"""Counts the elements on which torch operators compute, instead of kernels.

A wrapper of a kernel may allocate, view, copy and convert tensors, and compute tables of constants.
All other operators are counted, including those that do not compute floats: the process that
compares results decides whether the reference needs these. Integers that contain floats count as
floats: views of memory that contains floats, conversions of floats that change their values, and
operands of bit operators. The counts are made when a call is recorded, and again when its plan is
executed.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence

import torch

from ttools.core.spec import TensorSpec
from ttools.verifier.cases.tensors import raw_bytes
from ttools.verifier.replay.operators import ALLOCATING, base_name, is_computing

#: Operators that make constants. Their results may also become outputs of kernels, see `launch`.
_CONSTANT = """
arange linspace logspace scalar_tensor lift_fresh eye zeros zeros_like new_zeros ones ones_like
new_ones full full_like new_full
"""
_CONSTANTS = frozenset(_CONSTANT.split())
#: Operators on bits, which can compute floats that are packed in integers.
_BIT = """
bitwise_and bitwise_or bitwise_xor bitwise_not bitwise_left_shift bitwise_right_shift
__and__ __iand__ __or__ __ior__ __xor__ __ixor__ __lshift__ __ilshift__ __rshift__ __irshift__
"""
_BITS = frozenset(_BIT.split())
#: Operators that compare or test floats. Other operators that return integers for floats count as
#: computing.
_TESTING = """
eq ne lt le gt ge isnan isinf isfinite isposinf isneginf signbit logical_and logical_or
logical_not logical_xor any all count_nonzero nonzero equal is_nonzero allclose isclose
"""
_TESTS = frozenset(_TESTING.split())
#: Operators that convert the type of elements.
CONVERTING = frozenset(["_to_copy", "copy"])
#: Reads of single elements, and operators on them, are counted only if there are at least this
#: many. Fewer are permitted, because wrappers read sizes and compute scales.
_SINGLE = 8
#: Smaller tensors are not compared, because they can be equal by coincidence.
_TELLING = 8


class Work:
    """Counts the elements on which the operators of one call compute.

    Args:
        constants: Numbers of the storages that contain constants.

    Attributes:
        counts: Three numbers of elements for each operator, added up over its uses: of the float
            tensors that it computed or took out of torch, of those that it compared or tested, and
            of tensors of any kind. For each use, the largest operand or result counts.
        constants: Numbers of the storages that contain constants.
    """

    def __init__(self, constants: Iterable[int] = ()) -> None:
        self.counts: dict[str, tuple[int, int, int]] = {}
        self.constants = set(constants)
        #: Storages that contained floats, even if views of them are integers.
        self._floats: set[int] = set()
        #: Storages whose last contents a kernel wrote.
        self._of_kernels: set[int] = set()
        #: Number of reads of single elements, and of operators on them.
        self._single: Counter[str] = Counter()

    def operator(
        self,
        operator: str,
        taken: Sequence[TensorSpec],
        made: Sequence[TensorSpec],
        *,
        is_exact: bool = True,
    ) -> bool:
        """Count an operator; return whether it computes on anything but constants.

        Args:
            operator: Qualified name of the operator.
            taken: Operands of the operator.
            made: Results of the operator; they are in new memory, or in memory that it writes to.
            is_exact: False if a conversion changes values.
        """
        name = base_name(operator) or short_name(operator)
        storages = {view.storage for view in made}
        floats = [view for view in taken if self._has_floats(view)]
        made_floats = [view for view in made if self._has_floats(view)]
        has_integers = any(map(_is_integer, made))
        is_conversion = (
            name in CONVERTING
            and any(map(_is_float, taken))
            and (has_integers or any(view.dtype == "bool" for view in made))
        )
        # A kernel may write integers in a float type, and its wrapper may convert them.
        of_kernel = all(view.storage in self._of_kernels for view in floats)
        is_constant = bool(taken) and all(view.storage in self.constants for view in taken)
        self._of_kernels -= storages
        if is_constant or name in _CONSTANTS:
            self.constants |= storages
            return False
        self.constants -= storages
        has_bits = name in _BITS and any(map(_is_integer, (*taken, *made)))
        is_changing = is_conversion and not (is_exact and (of_kernel or not has_integers))
        if not (is_computing(operator) or is_changing):
            if floats and not is_conversion and name not in ALLOCATING:  # copied bits of floats
                self._floats |= storages
            return False
        every = most(taken, made)
        if made_floats or has_bits or is_changing or (floats and name not in _TESTS):
            if every == 1:
                self._note_single("operators", short_name(operator))
            else:
                self._note(short_name(operator), every, 0, every)
            self._floats |= storages
        else:
            self._note(short_name(operator), 0, most(floats), every)
        return not is_changing

    def launch(self, storages: Iterable[int]) -> None:
        """Record that a kernel writes to storages."""
        written = set(storages)
        self.constants -= written
        self._of_kernels |= written

    def leave(self, name: str, views: Sequence[TensorSpec]) -> None:
        """Count elements that leave torch, because the program can compute with them elsewhere."""
        if name == "_local_scalar_dense":
            if any(map(_is_float, views)):
                self._note_single("reads", name)
        else:
            self._note(name, most(filter(_is_float, views)), 0, most(views))

    def contains_floats(self, storage: int) -> None:
        """Record that a storage contains floats; other storages are recorded when they are used."""
        self._floats.add(storage)

    def lift(self, storage: int) -> None:
        """Record that a storage contains numbers that the program gave to torch."""
        self.constants.add(storage)

    def _has_floats(self, view: TensorSpec) -> bool:
        """Return whether a tensor has floats, or integers in memory that contained floats."""
        if _is_float(view):
            self._floats.add(view.storage)
        return view.storage in self._floats and view.dtype != "bool"

    def _note_single(self, kind: str, name: str) -> None:
        """Count the use of a single element, if there are many uses of this kind."""
        self._single[kind] += 1
        if self._single[kind] >= _SINGLE:
            count = _SINGLE if self._single[kind] == _SINGLE else 1
            self._note(name, count, 0, count)

    def _note(self, name: str, floats: int, tested: int, every: int) -> None:
        counts = self.counts.get(name, (0, 0, 0))
        one, two, three = map(sum, zip(counts, (floats, tested, every), strict=True))
        self.counts[name] = one, two, three


class ComputedValues:
    """The tensors that operators computed, to find them again in the results of a call."""

    def __init__(self) -> None:
        self._operators: dict[bytes, str] = {}
        #: By storage: the operator that computed its floats.
        self._floats: dict[int, str] = {}

    def computed(self, operator: str, view: TensorSpec, tensor: torch.Tensor, every: int) -> None:
        """Remember a tensor that an operator computed.

        Small tensors of integers are left out, because they can be equal by coincidence.

        Args:
            operator: Qualified name of the operator.
            view: Place of the tensor.
            tensor: The tensor with the elements.
            every: Number of elements of the largest operand or result.
        """
        is_float = _is_float(view)
        if (every if is_float else tensor.numel()) >= _TELLING:
            self._operators.setdefault(_digest(tensor), short_name(operator))
            if is_float:
                self._floats[view.storage] = short_name(operator)

    def converted(self, taken: TensorSpec, view: TensorSpec, tensor: torch.Tensor) -> None:
        """Remember the converted copy of floats that an operator computed."""
        operator = self._floats.get(taken.storage)
        if operator is not None and _is_float(view):
            self._operators.setdefault(_digest(tensor), operator)

    def launch(self, storages: Iterable[int]) -> None:
        """Forget the storages that a kernel writes to."""
        for storage in storages:
            self._floats.pop(storage, None)

    def operator_of(self, result: torch.Tensor) -> str:
        """Return the operator that computed a result; empty if none did, or if it is trivial."""
        if not result.numel():
            return ""
        plain = result.detach().reshape(-1)
        is_float = plain.is_floating_point() or plain.is_complex()
        if plain.numel() < _TELLING and not is_float:
            return ""
        first = plain[0]
        if bool((plain == first).all()) and (plain.numel() > 1 or _is_round(first)):
            return ""
        return self._operators.get(_digest(plain), "")


def short_name(operator: str) -> str:
    """Return the name of an operator without torch's namespace and the overload."""
    return operator.removeprefix("aten::").partition(".")[0]


def most(*views: Iterable[TensorSpec]) -> int:
    """Return the number of elements of the largest tensor."""
    return max((math.prod(view.shape) for part in views for view in part), default=0)


def _is_float(view: TensorSpec) -> bool:
    return view.dtype.startswith(("float", "bfloat", "complex"))


def _is_integer(view: TensorSpec) -> bool:
    return view.dtype.startswith(("int", "uint"))


def _is_round(value: torch.Tensor) -> bool:
    """Return whether a number is integral or not finite, as results often are by coincidence."""
    number = complex(value.item())
    return number.imag == 0 and (not math.isfinite(number.real) or number.real.is_integer())


def _digest(tensor: torch.Tensor) -> bytes:
    head = f"{tensor.dtype}{tensor.numel()}".encode()
    return hashlib.sha256(head + raw_bytes(tensor)).digest()
