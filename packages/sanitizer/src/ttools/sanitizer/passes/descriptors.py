"""The pass for tensor descriptors that a kernel creates from values that a GPU does not support.

The rules are those of `cuTensorMapEncodeTiled` in the CUDA driver API, without the limits of a box:
Triton splits blocks into boxes of at most 256 elements along each dimension, and Triton itself
rejects blocks of less than 16 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from ttools.core.gpus.launch_rules import (
    DESCRIPTOR_ALIGNMENT,
    DESCRIPTOR_STRIDES_END,
    RULES,
)
from ttools.interpreter.analysis.effects import Provenance
from ttools.ir import Constant, IntegerType, Module, Operation, Value, as_signed
from ttools.ir.dialects.traits import WRITES
from ttools.ir.rewriting import Builder, Rewriter
from ttools.sanitizer.analysis.dataflow import constant_of, operations, parameter_of
from ttools.sanitizer.passes.check import Defect, Note, insert_check

MARK = "ttools.descriptor"
BASE = "the base of a tensor descriptor is not a multiple of 16 bytes"
STRIDE = "a stride of a tensor descriptor is not a multiple of 16 bytes (dimension {n})"
STRIDE_RANGE = "a stride of a tensor descriptor is negative or too large (dimension {n})"
LAST_STRIDE = "the last dimension of a tensor descriptor is not contiguous"
END_OF_ROWS = (
    "the last extent of a tensor descriptor is not a multiple of 16 bytes: a store may continue to "
    "the next multiple"
)
HELP_END_OF_ROWS = (
    "if the memory after a row matters, let rows end at a multiple of 16 bytes, or store the last "
    "columns through pointers"
)
_I64 = IntegerType(64)


def makes_descriptors(module: Module) -> bool:
    """Return whether a kernel creates descriptors."""
    return any(op.name == MARK for op in module.kernel.walk())


def apply(module: Module) -> list[Note]:
    """Insert checks at each creation of a descriptor in a kernel without calls."""
    kernel = module.kernel
    provenance, rewriter = Provenance(kernel), Rewriter()
    every = list(operations(kernel))
    pointers = [op.operand("ptr") for op in every if op.has(WRITES)]
    stored = {parameter_of(pointer, provenance) for pointer in pointers if pointer is not None}
    for op in every:
        if op.name == MARK:
            argument = parameter_of(op.operands[0], provenance)
            _check(rewriter.before(op), op, argument, is_stored=argument in stored)
    rewriter.apply()
    return []


def _check(b: Builder, op: Operation, argument: int, *, is_stored: bool) -> None:
    base, *extents = op.operands
    rank = len(extents) // 2
    shape, strides = extents[:rank], extents[rank:]
    size = element_bytes(str(op.attributes["element"]))
    address = b.value("tt.ptr_to_int", [base], _I64)
    for kind, message, help_line, condition, shown in (
        *_base(b, address),
        *(rule for n, stride in enumerate(strides) for rule in _stride(b, n, rank, stride, size)),
        *(rule for n, extent in enumerate(shape) for rule in _extent(b, n, extent)),
    ):
        defect = Defect(
            check="memcheck",
            kind=kind,
            message=message,
            location=op.location,
            argument=argument,
            help=help_line,
        )
        insert_check(b, condition, defect, shown)
    if is_stored:
        _check_end_of_rows(b, op, argument, size)


def _check_end_of_rows(b: Builder, op: Operation, argument: int, size: int) -> None:
    """Check for rows that stores overrun because the row size is not a multiple of 16 bytes.

    The hardware drops elements beyond an extent only in units of 16 bytes: with int8 and an extent
    of 466, an H100 and an H200 also write columns 466 to 479 (triton-lang/triton#11583).
    """
    rank = (len(op.operands) - 1) // 2
    extent, stride = op.operands[rank], op.operands[2 * rank - 1] if rank > 1 else None
    number = _number(extent)
    if number is not None and number * size % DESCRIPTOR_ALIGNMENT == 0:
        return
    width = b.binary("muli", b.signed(extent, 64), b.constant(_I64, size))
    remainder = b.binary("andi", width, b.constant(_I64, DESCRIPTOR_ALIGNMENT - 1))
    defect = Defect(
        check="memcheck",
        kind="bad_descriptor",
        message=END_OF_ROWS,
        location=op.location,
        argument=argument,
        help=HELP_END_OF_ROWS,
        severity="warning",
    )
    wrong = b.compare("ne", remainder, b.constant(_I64, 0))
    if stride is not None:  # strides that are not a multiple of 16 bytes are reported instead
        distance = b.binary("muli", b.signed(stride, 64), b.constant(_I64, size))
        rest = b.binary("andi", distance, b.constant(_I64, DESCRIPTOR_ALIGNMENT - 1))
        is_multiple = b.compare("eq", rest, b.constant(_I64, 0))
        wrong = b.binary("andi", wrong, is_multiple)
    insert_check(b, wrong, defect, [("last extent in bytes", width)])


#: A rule: kind of finding, message, help, condition of the defect, and values to show.
_Rule: TypeAlias = "tuple[str, str, str, Value, list[tuple[str, Value]]]"


def _base(b: Builder, address: Value) -> Iterator[_Rule]:
    remainder = b.binary("andi", address, b.constant(_I64, DESCRIPTOR_ALIGNMENT - 1))
    wrong = b.compare("ne", remainder, b.constant(_I64, 0))
    yield (
        "misaligned",
        BASE,
        RULES["descriptor_base"].help,
        wrong,
        [("bytes past a multiple of 16", remainder)],
    )


def _stride(b: Builder, n: int, rank: int, stride: Value, size: int) -> Iterator[_Rule]:
    wide, number = b.signed(stride, 64), _number(stride)
    if n == rank - 1:
        if number != 1:
            wrong = b.compare("ne", wide, b.constant(_I64, 1))
            yield (
                "bad_descriptor",
                LAST_STRIDE,
                RULES["descriptor_last_stride"].help,
                wrong,
                [("its stride", wide)],
            )
        return
    if (
        number is not None
        and number * size % DESCRIPTOR_ALIGNMENT == 0
        and 0 <= number * size < DESCRIPTOR_STRIDES_END
    ):
        return
    distance = b.binary("muli", wide, b.constant(_I64, size))
    shown = [(f"stride of dimension {n}", wide), ("in bytes", distance)]
    remainder = b.binary("andi", distance, b.constant(_I64, DESCRIPTOR_ALIGNMENT - 1))
    wrong = b.compare("ne", remainder, b.constant(_I64, 0))
    yield "misaligned", STRIDE.format(n=n), RULES["descriptor_stride"].help, wrong, shown
    wrong = b.compare("uge", distance, b.constant(_I64, DESCRIPTOR_STRIDES_END))
    yield "bad_descriptor", STRIDE_RANGE.format(n=n), RULES["descriptor_shape"].help, wrong, shown


def _extent(b: Builder, n: int, extent: Value) -> Iterator[_Rule]:
    """Check for a negative extent; an extent of zero is harmless unless an element is accessed."""
    if (number := _number(extent)) is not None and number >= 0:
        return
    wide = b.signed(extent, 64)
    message = f"a tensor descriptor has a negative extent (dimension {n})"
    wrong = b.compare("slt", wide, b.constant(_I64, 0))
    yield "bad_descriptor", message, RULES["descriptor_shape"].help, wrong, [("extent", wide)]


def _number(value: Value) -> int | None:
    data, type = constant_of(value), value.type
    if not isinstance(data, Constant) or not isinstance(type, IntegerType):
        return None
    return as_signed(data.bits[0], type.width)


def element_bytes(element: str) -> int:
    """Return the size in bytes of an element such as `f32`, `bf16`, `f8E4M3FN`, `i8` or `ui8`."""
    digits = re.search(r"\d+", element)
    assert digits is not None, element
    return max(1, int(digits[0]) // 8)
