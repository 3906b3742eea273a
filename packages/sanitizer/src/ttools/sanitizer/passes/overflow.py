"""The pass for `int_overflow`: narrow integers that wrap around and then reach an address.

`find` determines which operations may wrap, by interval arithmetic on the arguments of one launch;
usually there are none, and no code is added. `apply` computes the results of these operations
exactly, in 64 bits, beside the narrow ones (see `exact_integers`). If the exact offset of an access
differs from its actual one, the address is wrong, and the first operation that lost bits is
reported:

    offset = row * stride         # i32: 70,000 * 40,000 wraps to -1,494,967,296
    exact = 2,800,000,000         # i64
    tl.load(x_ptr + offset)       # check(offset != exact)

MLIR's integers are signless. An integer is interpreted as signed unless it is zero-extended later.
Each integer therefore has a second exact value, for the unsigned interpretation.

Propagation ends at operations that drop bits on purpose, as in hashes (remainders, bit operations,
right shifts), and at comparisons, conversions to floats, and memory. Errors that are multiples of
2**64 are not found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ttools.interpreter.analysis.effects import Provenance
from ttools.ir import Module, Operation, Value, shape_of
from ttools.ir.combining import combined_by
from ttools.ir.dataflow import control_sources, reachable
from ttools.ir.dialects import declared
from ttools.ir.dialects.traits import DISPLACES, STRUCTURED
from ttools.ir.domains.intervals import bits_for
from ttools.ir.domains.launch_intervals import Intervals
from ttools.ir.rewriting import Rewriter
from ttools.ir.semantics import width_of
from ttools.sanitizer.analysis.dataflow import (
    is_access,
    operations,
    parameter_of,
)
from ttools.sanitizer.passes.check import Defect, Note, insert_check
from ttools.sanitizer.passes.exact_integers import ExactIntegers, Wrapped, reaching_address
from ttools.sanitizer.passes.lanes import within
from ttools.sanitizer.passes.tracking import Tracking
from ttools.sanitizer.passes.undefined_lanes import mask_of
from ttools.sanitizer.passes.witnesses import CheckSite, operands_shown, values_shown

_WIDEN = "widen one of the operands first, for example with `.to(tl.{})`"
_WIDEN_ALL = "widen the elements first, for example with `.to(tl.int64)`"
#: Position of an operation in `Operation.walk()` of the kernel, and the bits that its result needs.
Candidate = tuple[int, int]


def find(module: Module, scalars: Mapping[int, int], grid: Sequence[int]) -> frozenset[Candidate]:
    """Return the operations on the way to an address that may wrap around in one launch.

    Args:
        module: A module without calls that no pass has rewritten.
        scalars: Values of the integer parameters by index, as signed integers.
        grid: Number of programs along each axis.
    """
    kernel = module.kernel
    exact = Intervals(kernel, scalars, grid).exact
    if not exact:
        return frozenset()
    reaching = _reaching_addresses(kernel)
    return frozenset(
        (position, bits_for(exact[op]))
        for position, op in enumerate(kernel.walk())
        if op in exact and _narrowing(op) and op.results[0] in reaching and _is_narrow(op)
    )


def _narrowing(op: Operation) -> str:
    """Return a noun for the result of an operation that may lose bits, or an empty string."""
    return declared(combined_by(op) or op.name).noun


def _is_narrow(op: Operation) -> bool:
    return 1 < width_of(op.results[0]) < 64


def _reaching_addresses(kernel: Operation) -> set[Value]:
    """Return the integers all of whose bits reach an address."""
    rules = ExactIntegers(frozenset())

    def sources(value: Value) -> Iterable[Value]:
        op = value.defining_op
        if op is None or op.has(STRUCTURED):
            return filter(width_of, control_sources(value))
        return filter(width_of, rules.flowing(op))

    ends = []
    for op in operations(kernel):
        if op.has(DISPLACES):
            ends.append(op.operands[1])
        elif op.name == "tt.int_to_ptr":
            ends.append(op.operands[0])
    return set(reachable(filter(width_of, ends), sources))


def apply(module: Module, candidates: Collection[Candidate]) -> list[Note]:
    """Insert the checks of wrapped offsets into a kernel.

    Args:
        module: The module with which `find` was called, or an equal module.
        candidates: The result of `find`.

    Returns:
        What could not be checked.
    """
    if not candidates:
        return []
    kernel = module.kernel
    ops = list(kernel.walk())
    needed = {ops[position]: bits for position, bits in candidates}
    order = [ops[position] for position, _ in sorted(candidates)]
    provenance = Provenance(kernel)
    accesses = [op for op in operations(kernel) if is_access(op)]
    parameters = {op: parameter_of(op.operands[0], provenance) for op in accesses}
    rewriter = Rewriter()
    tracking = Tracking(kernel, ExactIntegers(frozenset(needed), order), rewriter)
    wanted = [
        (op, key) for op in accesses for key in reaching_address(tracking.state(op.operands[0]))
    ]
    checked = tracking.affordable([(op.operands[0], key)] for op, key in wanted)
    tracking.build()
    for op, key in wanted[:checked]:
        _check(rewriter, tracking, op, key, needed[key.op], parameters[op])
    rewriter.apply()
    what = "paths from integers that may wrap to an address"
    return tracking.left_out(f"only {checked}", checked, len(wanted), what)


def _check(
    rewriter: Rewriter,
    tracking: Tracking,
    access: Operation,
    key: Wrapped,
    bits: int,
    argument: int,
) -> None:
    culprit, article = key.op, "an " if key.reading == "signed" else "a u"
    condition = tracking.shadow(access.operands[0], key)
    assert condition is not None
    b = rewriter.before(access)
    condition = within(b, condition, mask_of(access))
    width = width_of(culprit.results[0])
    enough = f"int{max(bits, 2 * width)}"
    message = (
        f"{article}int{width} {_called(culprit)} wraps around and reaches an address; "
        f"{enough} would suffice"
    )
    site = CheckSite(b, access, access.operands[0], condition)
    shown = list(operands_shown(culprit, site))
    exact = tracking.shadow(culprit.results[0], key.exact)
    if combined_by(culprit) is not None and exact is not None:
        values = [("exact", exact), ("wrapped", culprit.results[0])]
        shown = list(values_shown(values, culprit, site))
    insert_check(
        b,
        condition,
        Defect(
            check="overflow",
            kind="int_overflow",
            message=message,
            location=culprit.location,
            argument=argument,
            help=_WIDEN.format(enough) if combined_by(culprit) is None else _WIDEN_ALL,
        ),
        shown,
    )


def _called(culprit: Operation) -> str:
    """Return a noun phrase for the result of the operation that has lost bits."""
    name = _narrowing(culprit)
    if combined_by(culprit) is None:
        return name
    number = shape_of(culprit.operands[0].type)[culprit.axis]
    return f"{'running ' if culprit.name == 'tt.scan' else ''}{name} of {number} elements"
