"""Rules for bitcasts and for float constants."""

from __future__ import annotations

from ttools.ir import Constant, IntegerType, Operation, element_type
from ttools.prove.attributes import same_elements
from ttools.prove.symbolic.operations import otherwise, rule
from ttools.prove.symbolic.state import State
from ttools.prove.symbolic.values import AnyValue, Opaque


@rule("tt.bitcast")
def _bitcast(kernel: State, op: Operation) -> AnyValue:
    """Return the operand if both types are integers, or pointers to elements of equal size."""
    value, result = kernel.get(op.operands[0]), op.results[0]
    kinds = [element_type(v.type) for v in (op.operands[0], result)]
    integers = all(isinstance(k, IntegerType) for k in kinds)
    if isinstance(value, Opaque) or not (integers or same_elements(*kinds)):
        return otherwise(kernel, op, result)
    return value


@rule("arith.constant")
def _constant(kernel: State, op: Operation) -> AnyValue:
    value, result = op.attributes["value"], op.results[0]
    if isinstance(element_type(result.type), IntegerType):
        return otherwise(kernel, op, result)
    return Opaque(isinstance(value, Constant) and value.is_splat)
