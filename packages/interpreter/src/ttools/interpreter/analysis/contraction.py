"""Contraction: a sum or difference of a product becomes one fused multiply-add, as on a GPU.

It is decided here rather than by LLVM, so that results depend neither on the CPU nor on the
schedule. The rule is that of LLVM for NVIDIA GPUs: a product is fused into every sum in its block,
whatever else it is used for; of two products the one with fewer uses is, the first if both have as
many. Must not know how a fused multiply-add is computed.
"""

from __future__ import annotations

from ttools.interpreter.ir import Block, FloatType, Module, Operation, Value, element_type

#: Formats with a fused multiply-add.
_FORMATS = frozenset(map(FloatType, ("f16", "bf16", "f32", "f64")))
#: The attribute of a `math.fma` made here that says what is negated first.
NEGATED = "negated"


def contract(module: Module) -> None:
    """Fuses products with sums in all functions of a module."""
    for function in module.functions.values():
        products: list[Operation] = []
        for op in function.walk():
            if op.name in ("arith.addf", "arith.subf"):
                product = _product_of(op)
                if product is not None:
                    _fuse(op, product)
            elif op.name == "arith.mulf":
                products.append(op)
        _erase_unused(products)


def _product_of(op: Operation) -> Value | None:
    """The operand of a sum that is a product to be fused."""
    if element_type(op.result.type) not in _FORMATS:
        return None
    found = [value for value in op.operands if _is_product(value, op)]
    return min(found, key=lambda value: len(value.uses), default=None)


def _is_product(value: Value, user: Operation) -> bool:
    op = value.defining_op
    return op is not None and op.name == "arith.mulf" and op.parent is user.parent


def _fuse(op: Operation, product: Value) -> None:
    first, second = op.operands
    addend = second if product is first else first
    if op.name == "arith.subf":
        op.attributes[NEGATED] = "addend" if product is first else "product"
    factors = product.defining_op
    assert factors is not None
    for index, value in enumerate(op.operands):
        value.uses.remove((op, index))
    op.name = "math.fma"
    op.operands = [*factors.operands, addend]
    for index, value in enumerate(op.operands):
        value.uses.append((op, index))


def _erase_unused(products: list[Operation]) -> None:
    """Leaves out what nothing uses any more, which would keep its operands in use."""
    erased: set[Operation] = set()
    blocks: dict[int, Block] = {}
    for op in reversed(products):
        if not op.result.uses:
            for index, value in enumerate(op.operands):
                value.uses.remove((op, index))
            erased.add(op)
            assert op.parent is not None
            blocks[id(op.parent)] = op.parent
    for block in blocks.values():
        block.operations[:] = [op for op in block.operations if op not in erased]
