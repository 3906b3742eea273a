"""What `input_precision` of `tl.dot` makes of f32 operands: the products whose sum is computed.

The table says what Triton's NVIDIA backend emits for tensor cores (3.6 to 3.9). With one product
the accumulator is where it starts; with several the sum starts at zero, loses what became NaN
before the product of the largest parts is added, and the accumulator is added last. Must not know
how a product is computed.
"""

from __future__ import annotations

from ttools.interpreter.abi.module import EmitOptions
from ttools.ir import FloatType, Operation, element_type

#: A part of the left and one of the right operand, see `elementwise.tensor_core`.
Product = tuple[str, str]

#: Products in the order they are added; the last one's is that of the largest parts.
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
    """The products that a `tt.dot` asks for; none if its operands are multiplied as they are."""
    if options.dot == "exact" or element_type(op.operands[0].type) != FloatType("f32"):
        return ()
    return _PRODUCTS.get(str(op.attributes.get("inputPrecision", "ieee")), ())
