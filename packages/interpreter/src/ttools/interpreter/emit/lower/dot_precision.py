"""The products by which f32 operands of `tl.dot` are multiplied, according to `input_precision`.

The table is what Triton's NVIDIA backend emits for tensor cores (3.6 to 3.9). A single product
starts with the accumulator. Several products start at zero, NaN is replaced by zero before the
product of the largest parts is added, and the accumulator is added last.
"""

from __future__ import annotations

from ttools.interpreter.abi.module import EmitOptions
from ttools.ir import FloatType, Operation, element_type

#: The parts of the left and of the right operand, see `elementwise.tensor_core`.
Product = tuple[str, str]

#: Products in the order in which they are added; the last one is that of the largest parts.
_PRODUCTS: dict[str, tuple[Product, ...]] = {
    "tf32": (("cut", "cut"),),
    "tf32x3": (("tf32.1", "tf32.0"), ("tf32.0", "tf32.1"), ("tf32.0", "tf32.0")),
    "bf16x3": (("bf16.1", "bf16.0"), ("bf16.0", "bf16.1"), ("bf16.0", "bf16.0")),
    "bf16x6": (
        *(("bf16.1", "bf16.1"), ("bf16.2", "bf16.0"), ("bf16.0", "bf16.2")),
        *(("bf16.1", "bf16.0"), ("bf16.0", "bf16.1"), ("bf16.0", "bf16.0")),
    ),
}


def products_of(op: Operation, options: EmitOptions) -> tuple[Product, ...]:
    """Return the products of a `tt.dot`; none if its operands are multiplied unchanged."""
    if options.dot == "exact" or element_type(op.operands[0].type) != FloatType("f32"):
        return ()
    return _PRODUCTS.get(str(op.attributes.get("inputPrecision", "ieee")), ())
