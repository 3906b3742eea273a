"""Identities of floating-point arithmetic that give operations on padding simple hashes.

A mask replaces elements outside a tensor by constants, such as 0 or -inf. Values that are computed
from these constants are often constant, too: for example, `exp(-inf - m)` is 0 for every finite
number `m`. Sums of zeros have their own rule, `hashes.added`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ttools.interpreter.eager.elements import Handle
from ttools.interpreter.eager.groups import aligned
from ttools.sanitizer.reproducibility.hashes import (
    KEEPS,
    Hashed,
    Hashes,
    constant,
    is_large,
    keeps_bits,
)

#: If a number that the CPU has computed is below this limit, the GPU's number is finite, too.
_LARGEST = 2.0**100
_WITH_INFINITY = {"f16", "bf16", "f32", "f64"}


def _simpler_product(
    operands: Sequence[Handle], values: Sequence[Hashed], result: Handle, hashes: Hashed
) -> Hashed:
    """Return the hashes of products with constants; `0 * 0` is 0, and `x * 1` is x."""
    a, b = values
    text = result.element.text
    zero, one = constant(text), constant(text, 1.0)
    for factor, other in ((a, b), (b, a)):
        is_neutral = (factor == one) & ((other & KEEPS) != 0)
        hashes = np.where(is_neutral | ((factor == zero) & (other == zero)), other, hashes)
    is_known = not any(isinstance(h.shadow, Hashes) for h in operands)
    return np.where(is_large(result) & (is_known | (a == b)), hashes | KEEPS, hashes)


def _simpler_difference(
    operands: Sequence[Handle], values: Sequence[Hashed], result: Handle, hashes: Hashed
) -> Hashed:
    """Return the hashes of differences: -inf minus a finite number is -inf."""
    lowest = constant(result.element.text, -np.inf)
    subtrahend = aligned(operands[1].data, operands[1], len(result.shape))
    is_lowest = (values[0] == lowest) & (np.abs(subtrahend) < _LARGEST)
    return np.where(is_lowest, lowest, hashes)


def _simpler_power(
    operands: Sequence[Handle], values: Sequence[Hashed], result: Handle, hashes: Hashed
) -> Hashed:
    """Return the hashes of powers, which are never -0.0.

    According to the PTX ISA (`ex2.approx.f32`), the results for -inf and zero are +0.0 and 1.
    """
    text = result.element.text
    if text != "f32":
        return hashes
    hashes = np.where(keeps_bits(result.data), hashes | KEEPS, hashes)
    hashes = np.where(values[0] == constant(text, -np.inf), constant(text), hashes)
    is_zero = (values[0] == constant(text)) | (values[0] == constant(text, -0.0))
    return np.where(is_zero, constant(text, 1.0), hashes)


def _simpler_conversion(
    operands: Sequence[Handle], values: Sequence[Hashed], result: Handle, hashes: Hashed
) -> Hashed:
    """Return the hashes of converted zeros and infinities, which both types can represent."""
    if not {operands[0].element.text, result.element.text} <= _WITH_INFINITY:
        return hashes
    for number in (0.0, -np.inf):
        own = constant(operands[0].element.text, number)
        hashes = np.where(values[0] == own, constant(result.element.text, number), hashes)
    return hashes


_SIMPLER: dict[str, Callable[[Sequence[Handle], Sequence[Hashed], Handle, Hashed], Hashed]] = {
    "fmul": _simpler_product,
    "fsub": _simpler_difference,
    "exp": _simpler_power,
    "exp2": _simpler_power,
    "fp_ext": _simpler_conversion,
    "fp_trunc": _simpler_conversion,
}


def simplified(
    operation: str,
    operands: Sequence[Handle],
    values: Sequence[Hashed],
    result: Handle,
    hashes: Hashed,
) -> Hashed:
    """Return the hashes of an operation, or of simpler expressions that have the same bits.

    Conditions on computed numbers are checked on the values that the CPU has computed. For example,
    in `exp(-inf - m)`, `m` counts as finite if the CPU's value is less than 2^100.

    Args:
        operation: Name of the operation.
        operands: The operands, whose values the CPU has computed.
        values: The hashes of the operands, in the shape of the result.
        result: The result that the CPU has computed.
        hashes: The hashes of the result if no identity applies.
    """
    simplify = _SIMPLER.get(operation)
    return hashes if simplify is None else simplify(operands, values, result, hashes)
