"""Follows a launch operation by operation and hashes the order of evaluation of each value.

The launch runs eagerly, so each operation has been computed when `HashFollower.operation` is called
with its operands and its result. A value without a shadow has known bits: it is an input, a
constant, or the result of operations that have the same bits on every target.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from ttools.core.compilation.reductions.kernel_orders import KernelOrders, ProductOrder
from ttools.core.compilation.reductions.order import ReductionOrder
from ttools.core.location import SourceLocation
from ttools.core.process.phases import tick
from ttools.interpreter.eager.debugging.frames import location
from ttools.interpreter.eager.elements import Handle
from ttools.interpreter.eager.groups import (
    GroupError,
    aligned,
    any_of_each,
    by_program,
    same_for_all,
    selected,
    spread,
)
from ttools.interpreter.eager.mlir import OpResults
from ttools.interpreter.eager.session import current
from ttools.sanitizer.reproducibility.hashes import (
    EXTREMA,
    KEEPS,
    LOW_BITS,
    MARKS,
    ORDERED,
    UNKNOWN,
    UNSURE,
    Hashed,
    Hashes,
    Integers,
    PendingProduct,
    added,
    as_multiset,
    as_set,
    combined,
    constant,
    extremum,
    hashes_of,
    of_bits,
    summed,
    tag,
    unordered_pair,
)
from ttools.sanitizer.reproducibility.identities import simplified
from ttools.sanitizer.reproducibility.memory import SEVERAL, HashMemory, StoredHashes

#: File and number of a source line.
Line: TypeAlias = "tuple[str, int]"
Rule: TypeAlias = "Callable[[HashFollower, str, Sequence[Any], Any], None]"


#: The reason given for an unknown loaded element that torch may have computed.
FOREIGN = "a load of memory that is neither an argument nor stored by a kernel"
#: Stands for the lines of Triton's library, which contain the additions of a sum.
LIBRARY: Line = ("", 0)
#: All marks of a hash, and all bits of a hash that are not part of its number, as Python integers.
_MARKS, _LOW_BITS = int(MARKS), int(LOW_BITS)


@dataclass(frozen=True)
class Step:
    """An operation of a recorded program, with the hashes of its operands and its result.

    Attributes:
        operation: Name of the operation.
        text: Further properties that distinguish the operation, such as the order of a sum.
        place: Source line of the operation.
        result: Hashes of the result.
        operands: Hashes of the operands, broadcast to the shape of the result; a sum has one
            operand with one more axis.
        axis: The additional axis of a sum; None for other operations.
    """

    operation: str
    text: str
    place: SourceLocation | None
    result: Hashed
    operands: tuple[Hashed, ...]
    axis: int | None = None


@dataclass(kw_only=True)
class AtomicSum:
    """The atomics on one element during a launch.

    Attributes:
        kind: `fadd`, or another operation; only the result of `fadd` depends on the order.
        before: Hash of the element before the launch.
        zero: Hash of +0.0 in the element's type, which does not count as a summand.
        total: Sum of the hashes of the operands, which does not depend on their order.
        count: Number of operands of the sum.
        first: Hash of the first operand.
        differ: True if not all operands have the same hash.
        with_zero: True if an operand of a sum of floats was +0.0.
        is_mixed: True if there were atomics of several kinds, so that their order affects the
            result.
        marks: The marks of all operands.
        place: Source line of the last atomic.
    """

    kind: str
    before: int
    zero: int
    total: int = 0
    count: int = 0
    first: int = 0
    differ: bool = False
    with_zero: bool = False
    is_mixed: bool = False
    marks: int = 0
    place: SourceLocation | None = None

    def add(self, kind: str, operand: int, part: int, place: SourceLocation | None) -> None:
        """Add an operand.

        Args:
            kind: Name of the operation, such as `fadd`.
            operand: Hash of the operand.
            part: The hash that is added to the total for this operand.
            place: Source line of the operation.
        """
        self.is_mixed |= kind != self.kind
        if kind == "fadd" and operand == self.zero:
            self.with_zero = True
            return
        self.first = self.first if self.count else operand
        self.differ |= operand != self.first
        self.total = (self.total + part) % (1 << 64)
        self.marks |= operand & _MARKS
        self.count, self.place = self.count + 1, place

    @property
    def is_ordered(self) -> bool:
        """True if another order of the atomics may give another result.

        `0 + a + b` equals `0 + b + a`, and equal summands can be exchanged.
        """
        if self.is_mixed:
            return True
        least = 2 if self.before == self.zero else 1
        return self.kind == "fadd" and self.differ and self.count > least

    def hash(self) -> int:
        """Return the hash of the element after the atomics."""
        before, first = np.uint64(self.before), np.uint64(self.first)
        if not self.count:
            number = self.before
        elif self.count == 1 and self.kind == "fadd":
            number = int(added(before, first, np.uint64(self.zero)))
        elif self.count == 1:
            number = int(unordered_pair(tag(self.kind), before, first))
        else:
            total = ((self.total & ~_LOW_BITS) ^ (self.count << 8)) | self.marks
            number = int(combined(tag(f"atomic {self.kind}"), before, np.uint64(total)))
        keeps = int(KEEPS) if self.with_zero and not self.is_mixed else 0
        return number | keeps | (int(ORDERED) if self.is_ordered else 0)


@dataclass(kw_only=True)
class HashFollower:
    """Follows one launch.

    Attributes:
        orders: The orders of sums in the kernel that is compiled for the target.
        memory: Hashes of the elements in memory.
        launch: Number of the launch in the run, from 1.
        foreign: Returns whether an element may be a result of torch, so that its bits are not an
            input. Its arguments are the address of the element and whether the element is a float.
        recorded: The program whose operations are recorded; None for no program.
        steps: The operations of that program.
        reasons: Why values are marked as unknown, with the first place of each reason.
        atomics: Lines with atomics whose order may change a result, with the number of elements.
        untracked: Reason why some stores have no hashes; empty if all stores have hashes.
        fusible: Lines of products, and of the sums with which the compiler may fuse them.
    """

    orders: KernelOrders
    memory: HashMemory
    launch: int
    foreign: Callable[[int, bool], bool] = lambda address, is_float: False
    recorded: tuple[int, int, int] | None = None
    steps: list[Step] = field(default_factory=list)
    reasons: dict[str, SourceLocation | None] = field(default_factory=dict)
    atomics: dict[Line, int] = field(default_factory=dict)
    untracked: str = ""
    fusible: dict[tuple[Line, Line], None] = field(default_factory=dict)
    _added: dict[tuple[int, int], AtomicSum] = field(default_factory=dict)
    _undecided: dict[tuple[int, int, int], np.uint64] = field(default_factory=dict)
    _bytes: int = 0

    #: Maximum size of the recorded hashes in bytes.
    most_bytes = 1 << 29

    def operation(self, name: str, arguments: Sequence[Any], result: Any) -> None:
        """Compute the hashes of the results of an operation."""
        tick()
        rule = RULES.get(name)
        if rule is not None:
            rule(self, name.removeprefix("create_"), arguments, result)
        elif name not in _SILENT:
            _default(self, name.removeprefix("create_"), arguments, result)

    def give(
        self,
        operation: str,
        result: Handle,
        operands: Sequence[Hashed],
        values: Hashed,
        *,
        text: str = "",
        axis: int | None = None,
        product: Line | None = None,
    ) -> None:
        """Set the hashes of a result, and record the operation if its program is recorded."""
        values = self.adjusted(operation, result, values, text, axis)
        result.shadow = Hashes(values, product)
        session = current()
        is_alone = session.group is None and session.program == self.recorded
        if self.recorded is not None and is_alone:
            self._bytes += values.nbytes + sum(h.nbytes for h in operands if h.base is None)
            if self._bytes <= self.most_bytes:
                step = Step(operation, text, location(), values, tuple(operands), axis)
                self.steps.append(step)

    def adjusted(
        self, operation: str, result: Handle, values: Hashed, text: str, axis: int | None
    ) -> Hashed:
        """Return the hashes of a result; subclasses may change or record them.

        Args:
            operation: Name of the operation.
            result: The result, whose hashes are to be set.
            values: Hashes of the result according to the order of evaluation.
            text: The order of evaluation in words, if the operation has one.
            axis: The axis of a reduction; None for other operations.
        """
        return values

    def unknown(self, reason: str, handle: Handle, *operands: Handle) -> None:
        """Mark a result as unknown for the given reason."""
        self.reasons.setdefault(reason, location())
        marked = combined(tag(reason), *map(_all_bits, operands))
        if marked.ndim:
            marked = by_program(marked, handle)
        values = np.broadcast_to(marked | UNKNOWN, handle.data.shape)
        handle.shadow = Hashes(values.copy())

    def may_fuse(self, *products: Line | None) -> None:
        """Record that the compiler may fuse products with the sum at the current line.

        Args:
            products: Lines of the products; None for operands that are not products.
        """
        here = line()
        for product in products:
            if product is not None and here is not None:
                self.fusible.setdefault((product, here))

    # ---- memory
    def undecided(self, reason: str, marks: np.uint64) -> None:
        """Mark everything that the current programs store from now on."""
        self.reasons.setdefault(reason, location())
        session = current()
        for program in session.group or [session.program]:
            self._undecided[program] = self._undecided.get(program, np.uint64(0)) | marks

    def _marks_of_programs(self, pointer: Handle, active: Any) -> Any:
        """Return, for each active lane, the marks of everything that its current program stores."""
        session = current()
        programs = session.group or [session.program]
        if not self._undecided.keys() & set(programs):
            return np.uint64(0)
        marks = np.array([self._undecided.get(p, 0) for p in programs], np.uint64)
        return selected(np.broadcast_to(by_program(marks, pointer), active.shape), active)

    def store(self, pointer: Handle, value: Handle, mask: Handle | None) -> None:
        """Record the hashes of stored elements."""
        shape = pointer.data.shape
        active = _active(mask, pointer)
        if not active.any():
            return
        addresses = selected(pointer.data, active)
        stored = self.memory.find(addresses, value.element.size)
        if stored is None:
            _refuse_groups("a group stores to memory that is not one argument")
            self.untracked = self.untracked or "it stores to memory that is not an argument"
            return
        own = aligned(hashes_of(value), value, len(pointer.shape))
        hashes = selected(np.broadcast_to(own, shape), active).copy()
        for handle, what in ((pointer, "address"), (mask, "mask")):
            if handle is not None and isinstance(handle.shadow, Hashes):
                _refuse_groups(f"the {what} of a store depends on floats")
                self.reasons.setdefault(f"the {what} of a store depends on floats", location())
                hashes |= UNKNOWN | _united(handle.shadow)
        programs = selected(np.broadcast_to(by_program(current().numbers, pointer), shape), active)
        hashes |= self._marks_of_programs(pointer, active)
        index = stored.span(addresses)
        again = (stored.launch[index] == self.launch) & (stored.program[index] != programs)
        conflict = again & (stored.values[index] != hashes)
        if conflict.any():
            self.reasons.setdefault("several programs store different values", location())
            hashes[conflict] |= UNKNOWN | UNSURE
        stored.store(index, hashes, self.launch, programs)

    def load(self, pointer: Handle, mask: Handle | None, other: Any, result: Handle) -> None:
        """Set the hashes of loaded elements that kernels have stored."""
        shape = result.data.shape
        active = _active(mask, result)
        for handle, what in ((pointer, "address"), (mask, "mask")):
            if handle is not None and isinstance(handle.shadow, Hashes):
                self.unknown(f"the {what} of a load depends on floats", result, handle)
                return
        has_hash, hashes = np.zeros(shape, bool), None
        if active.any():
            addresses = selected(np.broadcast_to(pointer.data, shape), active)
            stored = self.memory.find(addresses, result.element.size)
            if stored is None and result.is_grouped:
                raise GroupError("a group loads from memory that is not one argument")
            if stored is not None and self.memory.has_other_size(stored):
                _refuse_groups("memory is stored and loaded with different types")
                self.unknown("memory is stored and loaded with different types", result)
                return
            if stored is not None and not stored.is_empty:
                index = stored.span(addresses)
                has_hash[active] = stored.is_stored(index)
                hashes = self._loaded(stored, index)
            is_input = active & ~has_hash
            if _any(is_input, result) and self.foreign(int(addresses[0]), is_float(result)):
                self.unknown(FOREIGN, result)
                return
        from_other = isinstance(other, Handle) and isinstance(other.shadow, Hashes)
        if not _any(has_hash | ~active if from_other else has_hash, result):
            return
        values = of_bits(result)
        if hashes is not None:
            values[active] = np.where(has_hash[active], hashes, values[active])
        if from_other:
            own = aligned(other.shadow.values, other, len(result.shape))
            values = np.where(active, values, np.broadcast_to(own, shape))
        result.shadow = Hashes(values)

    def _loaded(self, stored: StoredHashes, index: Any) -> Hashed:
        """Return the hashes of loaded elements; mark elements that another program has stored."""
        loaded: Hashed = stored.values[index].copy()
        raced = stored.is_stored(index) & (stored.launch[index] == self.launch)
        raced &= stored.program[index] != current().numbers[0]
        if raced.any() and current().owned is None:
            text = "a load of what another program of the launch has stored"
            self.reasons.setdefault(text, location())
            loaded[raced] |= UNKNOWN | UNSURE
        return loaded

    def combine_atomically(
        self, kind: str, pointer: Handle, value: Handle, mask: Handle | None, old: Handle
    ) -> None:
        """Record the operands of atomics that return the old contents of memory.

        Args:
            kind: `fadd`, or another operation; only the result of `fadd` depends on the order.
            pointer: Addresses of the elements.
            value: Operands of the atomics.
            mask: Lanes that take part; None for all lanes.
            old: Contents of memory before each atomic.
        """
        shape = old.data.shape
        active = _active(mask, old)
        if not active.any():
            return
        addresses = np.broadcast_to(pointer.data, shape)[active]
        stored = self.memory.find(addresses, value.element.size)
        if stored is None:
            self.untracked = self.untracked or "it has atomics on memory that is not an argument"
            return
        hashes = np.broadcast_to(hashes_of(value), shape)[active].copy()
        if any(h is not None and isinstance(h.shadow, Hashes) for h in (pointer, mask)):
            self.reasons.setdefault("an atomic whose address depends on floats", location())
            hashes |= UNKNOWN | UNSURE
        hashes |= self._undecided.get(current().program, np.uint64(0))
        elements, first = np.unique(stored.index(addresses), return_index=True)
        new = np.array([(stored.start, n) not in self._added for n in elements.tolist()])
        if new.any():
            self._begin_sums(kind, stored, elements[new], old.at(active).at(first[new]))
        place, operation = location(), tag(f"atomic {kind}")
        parts = combined(operation, hashes)
        for n, summand, part in zip(
            stored.index(addresses).tolist(), hashes.tolist(), parts.tolist(), strict=True
        ):
            self._added[stored.start, n].add(kind, summand, part, place)
        sums = [self._added[stored.start, n].hash() for n in elements.tolist()]
        stored.store(elements, np.array(sums, np.uint64), self.launch, SEVERAL)

    def _begin_sums(self, kind: str, stored: StoredHashes, elements: Any, old: Handle) -> None:
        """Begin the sums of elements with their contents before the launch's first atomic."""
        has_hash = stored.has_bits(elements, old.data)
        own = of_bits(old)
        if self.foreign(stored.start, is_float(old)):
            own = np.where(old.data == 0, own, own | UNKNOWN)
        before = np.where(has_hash, stored.values[elements], own)
        zero = int(constant(old.element.text))
        for n, value in zip(elements.tolist(), before.tolist(), strict=True):
            self._added[stored.start, n] = AtomicSum(kind=kind, before=value, zero=zero)

    def finish(self) -> None:
        """Count the elements whose values depend on the order of atomics."""
        for one in self._added.values():
            if one.is_ordered and one.place is not None:
                line = one.place.file, one.place.line
                self.atomics[line] = self.atomics.get(line, 0) + 1


def line() -> Line | None:
    """Return the file and line that the running kernel executes."""
    place = location()
    return None if place is None else (place.file, place.line)


def _united(shadow: Hashes) -> np.uint64:
    """Return the marks of all elements."""
    marks: np.uint64 = np.uint64(int(np.bitwise_or.reduce(shadow.values.reshape(-1))) & _MARKS)
    return marks


def _active(mask: Handle | None, like: Handle) -> Any:
    """Return the active lanes of an access.

    Args:
        mask: The mask; None if all lanes are active.
        like: The addresses or the result of the access, which determine the shape.
    """
    if mask is None:
        return np.ones(like.data.shape, bool)
    return np.broadcast_to(aligned(mask.data, mask, len(like.shape)), like.data.shape)


# ---- groups of programs


def _refuse_groups(reason: str) -> None:
    """Raise an error if several programs are followed at once.

    Raises:
        GroupError: Programs run in groups; `reason` is the message.
    """
    if current().owned is not None:
        raise GroupError(reason)


def _any(flags: Any, handle: Handle) -> bool:
    """Return whether any flag is set, given one flag for each element of a value.

    Raises:
        DivergedError: The result differs between the programs of a group.
    """
    return bool(same_for_all(any_of_each(flags)) if handle.is_grouped else flags.any())


def _all_bits(handle: Handle) -> Any:
    """Return the bitwise or of all hashes of a value, for each program of a group."""
    rows = hashes_of(handle).reshape(len(handle.data) if handle.is_grouped else 1, -1)
    united = np.bitwise_or.reduce(rows, axis=1)
    return united if handle.is_grouped else united[0]


def _axis(axis: int, handle: Handle) -> int:
    """Return the axis of a value's data array that corresponds to an axis of the value."""
    return axis % len(handle.shape) + handle.is_grouped


# ---- rules of operations that work lane by lane


_TENSOR = re.compile(r"tensor<(?:\d+x)*([^<>]*(?:<[^<>]*>)?)>")


def _handles(value: Any) -> list[Handle]:
    """Return the handles among the arguments of an operation."""
    if isinstance(value, Handle):
        return [value]
    if isinstance(value, (list, tuple, OpResults)):
        return [handle for item in value for handle in _handles(item)]
    return []


def _attributes(value: Any) -> str:
    """Return the arguments of an operation that are not handles, as text."""
    if isinstance(value, Handle):
        return "value"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_attributes, value))}]"
    # Shapes are removed, so that equal operations on tiles of different shapes have equal hashes.
    text = _TENSOR.sub(r"\1", str(value))
    return type(value).__name__ if " at 0x" in text else text


def is_float(handle: Handle) -> bool:
    """Return whether a value consists of floating-point numbers."""
    return handle.element.text[0] in "fb" and handle.element.pointee is None


#: Operations whose result has known bits if the bits of the operands are known: these operations
#: are exact, or they round once.
_EXACT = frozenset(
    (
        *("fp_ext", "fp_trunc", "fneg", "fabs", "si_to_fp", "ui_to_fp", "bitcast", "select"),
        *("maximumf", "maxnumf", "minimumf", "minnumf", "clampf", "floor", "ceil"),
    )
)
_SUMS = frozenset(("fadd", "fsub"))
_FROM_INTEGERS = frozenset(("si_to_fp", "ui_to_fp"))
#: Every smaller integer is an f32.
_LARGEST_INTEGER = 2.0**24
#: Operations after which no product remains that could be fused with a sum.
_NEVER_FUSED = frozenset(
    (
        *("fadd", "fsub", "fma", "maximumf", "maxnumf", "minimumf", "minnumf"),
        *("fp_ext", "fp_trunc", "fabs"),
    )
)
#: The same for float32 operations, which have instructions of their own.
_NEVER_FUSED_F32 = frozenset(("exp", "exp2", "log2", "sin", "cos", "sqrt", "rsqrt"))


def _default(f: HashFollower, operation: str, arguments: Sequence[Any], result: Any) -> None:
    """Hash an operation that works lane by lane."""
    operands, results = _handles(list(arguments)), _handles(result)
    computed = any(isinstance(handle.shadow, Hashes) for handle in operands)
    for number, one in enumerate(results):
        if not computed and operation in _FROM_INTEGERS:
            one.shadow = Integers()
        if not computed and (operation in _EXACT or not is_float(one)):
            continue
        if operation == "fadd" and _are_integers(operands, one, one.data):
            one.shadow = Integers()
            continue
        if not operands or one.shadow is not None:
            continue
        try:
            values = [_like(h, one) for h in operands]
        except ValueError:
            f.unknown(f"`{operation}` is not followed", one, *operands)
            continue
        if any(isinstance(h.shadow, Hashes) and h.shadow.reordered for h in operands):
            f.unknown("the compiler may permute the elements of a reshaped tile", one, *operands)
            continue
        _combine(f, operation, arguments, one, operands, values, number)


def _are_integers(operands: Sequence[Handle], result: Handle, totals: Any) -> bool:
    """Return whether the sum of some floats is an exact integer, whatever the inputs are.

    Args:
        operands: The operands; for a result of True, each must be converted from integers or be
            zero.
        result: The value with the sums; for a result of True, its type must be f32.
        totals: The sums of the absolute values of the operands.
    """
    others = [handle for handle in operands if not isinstance(handle.shadow, Integers)]
    if result.element.text != "f32" or len(others) == len(operands):
        return False
    if any(handle.shadow is not None or _any(handle.data != 0, handle) for handle in others):
        return False
    return not _any(np.abs(totals) > _LARGEST_INTEGER, result)


def _like(handle: Handle, result: Handle) -> Hashed:
    """Return the hashes of an operand in the shape of a result."""
    values = aligned(hashes_of(handle), handle, len(result.shape))
    return np.broadcast_to(values, result.data.shape)


def _combine(
    f: HashFollower,
    operation: str,
    arguments: Sequence[Any],
    result: Handle,
    operands: Sequence[Handle],
    values: Sequence[Hashed],
    number: int,
) -> None:
    shadows = [h.shadow for h in operands if isinstance(h.shadow, Hashes)]
    if operation in _SUMS:
        pending = [n for n, h in enumerate(operands) if _pending(h) is not None]
        if operation == "fadd" and len(pending) == 1:
            product = _pending(operands[pending[0]])
            assert product is not None
            if f.orders.has_addition(location(), result.shape):
                f.unknown("a sum that may be part of a product of matrices", result, *operands)
                return
            accumulator = values[1 - pending[0]]
            sums = product.added_to(accumulator, result)
            f.give("dot", result, (accumulator,), sums, text=product.text)
            return
        f.may_fuse(*(shadow.product for shadow in shadows))
    if operation == "fma":
        f.may_fuse(line())
    attributes = _attributes([a for a in arguments if not isinstance(a, Handle)])
    name = tag(f"{operation} {result.element.text} {number} {attributes}")
    if operation == "fadd":
        products = [_product_of(handle) is not None for handle in operands]
        hashes = added(values[0], values[1], constant(result.element.text), products)
    elif operation in EXTREMA:
        pair = np.stack(values[:2])
        hashes = extremum(operation, pair, 0, result.element.text, np.isfinite(result.data))
    elif operation == "fmul":
        hashes = unordered_pair(name, values[0], values[1])
    elif operation == "fma":
        factors = np.minimum(values[0], values[1]), np.maximum(values[0], values[1])
        hashes = combined(name, *factors, values[2])
    else:
        hashes = combined(name, *values)
    hashes = simplified(operation, operands, values, result, hashes)
    is_product = is_float(result) and operation not in _NEVER_FUSED
    if operation in _NEVER_FUSED_F32 and result.element.text == "f32":
        is_product = False
    f.give(operation, result, values, hashes, product=line() if is_product else None)


def _product_of(handle: Handle) -> Line | None:
    return handle.shadow.product if isinstance(handle.shadow, Hashes) else None


def _pending(handle: Handle) -> PendingProduct | None:
    return handle.shadow.pending if isinstance(handle.shadow, Hashes) else None


def _select(f: HashFollower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    condition, a, b = arguments
    if isinstance(condition.shadow, Hashes):
        _default(f, operation, arguments, result)
    elif isinstance(a.shadow, Hashes) or isinstance(b.shadow, Hashes):
        chosen = aligned(condition.data, condition, len(result.shape))
        values = np.where(chosen, _like(a, result), _like(b, result))
        flags = [h.shadow for h in (a, b) if isinstance(h.shadow, Hashes)]
        result.shadow = Hashes(values, _product(flags), any(s.reordered for s in flags))


def _product(shadows: Sequence[Hashes]) -> Line | None:
    return next((shadow.product for shadow in shadows if shadow.product is not None), None)


# ---- rules of operations that move elements


def _moving(move: Callable[..., Hashed]) -> Rule:
    def rule(f: HashFollower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
        handle = next(a for a in arguments if isinstance(a, Handle))
        own = handle.shadow
        if isinstance(own, Hashes):
            values = np.asarray(move(own.values, result, *arguments))
            result.shadow = Hashes(values, own.product, own.reordered)

    return rule


def _moved_splat(values: Hashed, result: Handle, type: Any, value: Handle) -> Hashed:
    return np.broadcast_to(aligned(values, value, len(result.shape)), result.data.shape)


def _transposed(values: Hashed, result: Handle, value: Handle, order: Sequence[int]) -> Hashed:
    first = (0,) if result.is_grouped else ()
    return np.transpose(values, (*first, *(_axis(n, value) for n in order)))


def _reshape(f: HashFollower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    handle = next(a for a in arguments if isinstance(a, Handle))
    own = handle.shadow
    may_permute = len(arguments) > 2 and bool(arguments[2])
    has_axes = sum(n > 1 for n in handle.shape) > 1
    if not isinstance(own, Hashes) and not (may_permute and has_axes):
        return
    values = hashes_of(handle).reshape(result.data.shape)
    product = own.product if isinstance(own, Hashes) else None
    was_permuted = isinstance(own, Hashes) and own.reordered
    result.shadow = Hashes(values, product, was_permuted or (may_permute and has_axes))


def _joining(join: Callable[[Any, Any, int], Any]) -> Rule:
    def rule(f: HashFollower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
        a, b = arguments[:2]
        if isinstance(a.shadow, Hashes) or isinstance(b.shadow, Hashes):
            flags = [h.shadow for h in (a, b) if isinstance(h.shadow, Hashes)]
            count = len(result.data) if result.is_grouped else 0
            own = [spread(hashes_of(h), h, count) if count else hashes_of(h) for h in (a, b)]
            result.shadow = Hashes(
                join(own[0], own[1], int(result.is_grouped)),
                _product(flags),
                any(s.reordered for s in flags),
            )

    return rule


def _split(f: HashFollower, operation: str, arguments: Sequence[Any], result: Any) -> None:
    own = arguments[0].shadow
    if isinstance(own, Hashes):
        for n, handle in enumerate(result):
            handle.shadow = own.at((..., n))


def _gather(f: HashFollower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    value, index, axis = arguments[:3]
    if isinstance(index.shadow, Hashes):
        f.unknown("an index of a gather depends on floats", result, value)
    elif isinstance(value.shadow, Hashes):
        inside = np.clip(index.data.astype(np.int64), 0, value.shape[axis] - 1)
        own = value.shadow.values
        if result.is_grouped:
            own, inside = (
                spread(x, h, len(result.data)) for x, h in ((own, value), (inside, index))
            )
        values = np.take_along_axis(own, inside, _axis(axis, result))
        result.shadow = Hashes(values, value.shadow.product, value.shadow.reordered)


# ---- reductions and products of matrices

#: Combine functions whose result depends on neither the order nor the repetition of elements.
_EXTREMA = frozenset(
    (
        *("_elementwise_max", "_elementwise_min", "_or_combine"),
        *("_argmax_combine_tie_break_left", "_argmin_combine_tie_break_left"),
    )
)
#: The operation on two floats that corresponds to a combine function.
_FLOAT_EXTREMA = {"_elementwise_max": "maxnumf", "_elementwise_min": "minnumf"}


def _reduce(f: HashFollower, operation: str, arguments: Sequence[Any], results: Any) -> None:
    handles, axis, function = arguments[:3]
    name = getattr(function, "__name__", "")
    results, value = _handles(results), handles[0]
    computed = any(isinstance(h.shadow, Hashes) for h in handles)
    if name == "_sum_combine" and is_float(value):
        _sum(f, value, axis, results[0])
        return
    if name in _EXTREMA or (name in ("_sum_combine", "_xor_combine") and not is_float(value)):
        if name.startswith("_arg") and is_float(value) and _any(np.isnan(value.data), value):
            for result in results:
                f.unknown("the order of an argmax or argmin of NaN is not followed", result)
            return
        if not computed:
            return
        values = hashes_of(value)
        for other in handles[1:]:
            values = combined(tag("with"), values, hashes_of(other))
        if name in _FLOAT_EXTREMA and is_float(value):
            kind, result = _FLOAT_EXTREMA[name], results[0]
            is_finite = np.isfinite(result.data)
            united = extremum(kind, values, _axis(axis, value), value.element.text, is_finite)
            f.give(f"reduce with `{name}`", result, (values,), united, axis=axis)
            return
        unite = as_set if name in _EXTREMA else as_multiset
        for n, result in enumerate(results):
            united = unite(tag(f"{name} {n}"), values, _axis(axis, value))
            f.give(f"reduce with `{name}`", result, (values,), united, axis=axis)
        return
    for result in results:
        reason = f"the order of a reduction with `{name}` is not followed"
        f.unknown(reason, result, *handles)


def _sum(f: HashFollower, value: Handle, axis: int, result: Handle) -> None:
    own = value.shadow
    order: ReductionOrder | str
    if _are_integers([value], result, np.abs(value.data).sum(_axis(axis, value), np.float64)):
        result.shadow = Integers()
        return
    if isinstance(own, Hashes) and own.reordered:
        order = "the compiler may permute the elements of a reshaped tile"
    elif value.shape[axis] == 1:
        order = ReductionOrder(1, (), 1, 1)
    else:
        order = f.orders.reduction(location(), value.shape, axis)
    if isinstance(order, str):
        f.unknown(order, result, value)
        return
    if isinstance(own, Hashes) and own.product is not None:
        f.fusible.setdefault((own.product, LIBRARY))
    values = hashes_of(value)
    of_products = isinstance(own, Hashes) and own.product is not None
    zero = constant(value.element.text)
    sums = summed(values, _axis(axis, value), order, zero, of_products=of_products)
    f.give("sum", result, (values,), sums, text=str(order), axis=axis)


def _scan(f: HashFollower, operation: str, arguments: Sequence[Any], results: Any) -> None:
    handles = arguments[0]
    if not is_float(handles[0]) and not any(isinstance(h.shadow, Hashes) for h in handles):
        return
    for result in _handles(results):
        f.unknown("the order of a scan is not followed", result, *handles)


def _python_reduction(
    f: HashFollower, operation: str, arguments: Sequence[Any], results: Any
) -> None:
    """Mark the results of a reduction or scan with a user-defined combine function as unknown."""
    handles, function = arguments
    name = getattr(function, "__name__", "a function")
    for result in _handles(results):
        if is_float(result) or isinstance(result.shadow, Hashes):
            result.shadow = None
            reason = f"the order of a reduction with `{name}` is not followed"
            f.unknown(reason, result, *handles)


def _dot(f: HashFollower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    a, b, c = arguments[:3]
    operands = [hashes_of(handle) for handle in (a, b, c)]
    if not is_float(result):
        if any(isinstance(h.shadow, Hashes) for h in (a, b, c)):
            f.unknown("a product of integers that depend on floats", result, a, b, c)
        return
    order: ProductOrder | str
    if len(result.shape) != 2:
        order = "the order of a product of batches of matrices is not followed"
    else:
        order = f.orders.product(location(), result.shape)
    if isinstance(order, ProductOrder) and a.shape[1] % order.step:
        order = "the columns are no multiple of those of an instruction"
    if isinstance(order, str):
        f.unknown(order, result, a, b, c)
        return
    attributes = _attributes([x for x in arguments if not isinstance(x, Handle)])
    # On the same GPU, `mma` and `wgmma` give equal bits for sums in f32; this was measured.
    unit = "" if c.element.text == "f32" else order.unit
    kind = tag(f"{order} {unit} {a.element.text} {c.element.text} {attributes}")
    rows, columns = [], []
    for start in range(0, a.shape[1], order.step):
        ks = range(start, start + order.step)
        rows.append(combined(tag("row"), *(operands[0][..., :, k] for k in ks)))
        columns.append(combined(tag("column"), *(operands[1][..., k, :] for k in ks)))
    parts = [[constant(handle.element.text)] * order.step for handle in (a, b)]
    product = PendingProduct(
        kind,
        rows,
        columns,
        str(order),
        (np.uint64(combined(tag("row"), *parts[0])), np.uint64(combined(tag("column"), *parts[1]))),
        order.skips_zero,
    )
    is_zero = c.shadow is None and not _any((c.data != 0) | np.signbit(c.data), c)
    sums = product.added_to(np.broadcast_to(operands[2], result.data.shape), result)
    f.give("dot", result, (operands[2],), sums, text=str(order))
    if is_zero and not order.from_zero:
        # The compiler may have moved a sum `acc + dot(a, b)` into the accumulator of the product.
        result.shadow = Hashes(sums, pending=product)


# ---- rules of accesses to memory


def _load(f: HashFollower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    mask, other = (arguments[1], arguments[2]) if operation == "masked_load" else (None, None)
    f.load(arguments[0], mask, other, result)


def _store(f: HashFollower, operation: str, arguments: Sequence[Any], result: Any) -> None:
    f.store(arguments[0], arguments[1], arguments[2] if operation == "masked_store" else None)


def _atomic(f: HashFollower, operation: str, arguments: Sequence[Any], result: Handle) -> None:
    kind, pointer, value, mask = arguments[:4]
    name = str(kind).rpartition(".")[2].lower()
    f.combine_atomically(name, pointer, value, mask, result.with_data(result.data.copy()))
    if name == "xchg":
        f.undecided("an atomic exchange depends on the order of programs", UNKNOWN | UNSURE)
    returned = combined(tag("atomic result"), hashes_of(value))
    values = np.broadcast_to(returned, result.data.shape) | UNKNOWN | UNSURE
    result.shadow = Hashes(np.asarray(values, np.uint64))


def _compare_and_swap(
    f: HashFollower, operation: str, arguments: Sequence[Any], result: Handle
) -> None:
    values = np.full(result.data.shape, tag("atomic result") | UNKNOWN | UNSURE, np.uint64)
    result.shadow = Hashes(values)
    f.undecided("an atomic exchange depends on the order of programs", UNKNOWN | UNSURE)


def _branch(f: HashFollower, operation: str, arguments: Sequence[Any], result: Any) -> None:
    own = arguments[0].shadow
    if isinstance(own, Hashes):
        if arguments[0].is_grouped:
            raise GroupError("a branch depends on computed floats")
        marks = _united(own)
        what = "what an atomic returns" if marks & UNSURE else "computed floats"
        if marks & ORDERED:
            marks |= UNSURE
        f.undecided(f"a branch depends on {what}", UNKNOWN | marks)


#: The rule of each operation, by builder method. All other operations work lane by lane.
RULES: dict[str, Rule] = {
    "create_select": _select,
    "create_splat": _moving(_moved_splat),
    "create_broadcast": _moving(lambda x, result, *_: np.broadcast_to(x, result.data.shape)),
    "create_expand_dims": _moving(lambda x, result, *_: x.reshape(result.data.shape)),
    "create_unsplat": _moving(lambda x, result, *_: x.reshape(result.data.shape)),
    "create_trans": _moving(_transposed),
    "create_reshape": _reshape,
    "create_cat": _joining(lambda x, y, axis: np.concatenate((x, y), axis)),
    "create_join": _joining(lambda x, y, axis: np.stack((x, y), axis=-1)),
    "create_split": _split,
    "create_gather": _gather,
    "create_reduce": _reduce,
    "create_scan": _scan,
    "create_python_reduction": _python_reduction,
    "create_dot": _dot,
    "create_load": _load,
    "create_masked_load": _load,
    "create_store": _store,
    "create_masked_store": _store,
    "create_atomic_rmw": _atomic,
    "create_atomic_cas": _compare_and_swap,
    "branch": _branch,
}
#: Operations whose results are constants, or whose inner operations have been followed.
_SILENT = frozenset(
    (
        "create_atomic_poll",
        "create_poison",
        "create_descriptor_load",
        "create_descriptor_gather",
        "create_descriptor_store",
        "create_tensor_pointer_load",
        "create_tensor_pointer_store",
    )
)
