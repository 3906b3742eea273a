"""Contraction: a sum or difference with a product becomes a fused multiply-add, as on a GPU.

For example, `x * y + z` becomes `fma(x, y, z)`, which rounds once instead of twice. This module
decides what is fused, and LLVM fuses nothing, so that results depend neither on the CPU nor on the
schedule. The rule is that of LLVM for NVIDIA GPUs: a product, or the negative of one, is fused into
every sum in its block, even if it has other uses.

If both operands of the sum are products, only one of them can be fused, and the other is rounded.
The one with fewer uses is fused. If both have the same number of uses and one is subtracted from
the other, the one that is not subtracted is fused: `a*b - c*d` becomes `fma(a, b, -(c*d))`. If both
are added, the one whose operands are computed first is fused (see `_Ranks`).
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from ttools.ir import Block, FloatType, Module, Operation, Value, element_type
from ttools.ir.dialects.traits import ELEMENTWISE, VIEW
from ttools.ir.rewriting import add_operand

_SUM, _DIFFERENCE = "arith.addf", "arith.subf"
_PRODUCT, _NEGATIVE = "arith.mulf", "arith.negf"
#: Formats with a fused multiply-add.
_FORMATS = frozenset(map(FloatType, ("f16", "bf16", "f32", "f64")))
#: The attribute of the `math.fma` operations created here. It names what is negated before the
#: addition: "product", "addend" or "both".
NEGATED = "negated"


class _Term(NamedTuple):
    """An operand of a sum: `value`, or its negative if `negative` is True.

    Attributes:
        uses: The number of uses of the value, including those of its negations that were removed.
    """

    value: Value
    negative: bool
    uses: int


def contract(module: Module) -> None:
    """Fuse products with sums in all functions of a module."""
    for function in module.functions.values():
        ranks = _Ranks()
        unused: list[Operation] = []
        for op in function.walk():
            ranks.add(op)
            if op.name in (_SUM, _DIFFERENCE):
                if element_type(op.result.type) in _FORMATS:
                    _fuse_product(op, ranks)
            elif op.name in (_PRODUCT, _NEGATIVE):
                unused.append(op)
        _erase_unused(unused)


class _Ranks:
    """The order in which the values of a function are computed, as LLVM's `reassociate` ranks them.

    The result of an elementwise operation ranks one above the highest of its operands; a negation
    and a view have the rank of their operand. The results of any other operation, such as a load,
    rank by the position of the operation in the function.
    """

    def __init__(self) -> None:
        self._ranks: defaultdict[Value, int] = defaultdict(int)
        self._last = 0

    def add(self, op: Operation) -> None:
        """Rank the results of an operation, whose operands are ranked already."""
        traits = op.traits
        if ELEMENTWISE in traits or VIEW in traits:
            rank = max([self._ranks[operand] for operand in op.operands], default=0)
            if op.name != _NEGATIVE and VIEW not in traits:
                rank += 1
        else:
            self._last += 1
            rank = self._last
        for value in op.results:
            self._ranks[value] = rank
        for region in op.regions:
            for block in region.blocks:
                for value in block.arguments:
                    self._ranks[value] = rank

    def __getitem__(self, value: Value) -> int:
        return self._ranks[value]


def _fuse_product(op: Operation, ranks: _Ranks) -> None:
    """Turn a sum with a product that can be fused into a multiply-add."""
    first, second = (_term(value, op) for value in op.operands)
    if op.name == _DIFFERENCE:
        second = second._replace(negative=not second.negative)
    products = [term for term in (first, second) if _is_product(term.value, op)]
    if not products:
        return
    product = products[0] if len(products) == 1 else _preferred(op, first, second, ranks)
    _fuse(op, product, second if product is first else first)


def _preferred(op: Operation, first: _Term, second: _Term, ranks: _Ranks) -> _Term:
    """Return the one of two products that is fused into the sum `op`; the other is the addend."""
    if first.uses != second.uses:
        return min(first, second, key=lambda term: term.uses)
    if first.value is second.value:
        return first
    match _is_below_zero(first), _is_below_zero(second):
        case False, False:
            return min(first, second, key=lambda term: ranks[term.value])
        case True, True if op.name == _SUM:
            return second
        case True, False:
            return second
        case _:
            return first


def _is_below_zero(product: _Term) -> bool:
    """Return whether a product counts as negated.

    It does if an odd number of these are negated: the product itself, and its factors that have no
    other use.
    """
    op = product.value.defining_op
    assert op is not None
    factors = [value.defining_op for value in op.operands if len(value.uses) == 1]
    negatives = [op for op in factors if op is not None and op.name == _NEGATIVE]
    return product.negative ^ (len(negatives) == 1)


def _term(value: Value, user: Operation) -> _Term:
    """Return an operand of a sum as a term.

    Negations of a product that is in the same block as the sum are removed, and the term is then
    marked as negative if their number is odd.
    """
    negative, inner, uses = False, value, len(value.uses)
    while (op := inner.defining_op) is not None and op.name == _NEGATIVE:
        negative, inner = not negative, op.operands[0]
        uses += len(inner.uses) - 1
    if _is_product(inner, user):
        return _Term(inner, negative, uses)
    return _Term(value, False, uses)


def _is_product(value: Value, user: Operation) -> bool:
    op = value.defining_op
    return op is not None and op.name == _PRODUCT and op.parent is user.parent


def _fuse(op: Operation, product: _Term, addend: _Term) -> None:
    match product.negative, addend.negative:
        case True, True:
            op.attributes[NEGATED] = "both"
        case True, False:
            op.attributes[NEGATED] = "product"
        case False, True:
            op.attributes[NEGATED] = "addend"
    factors = product.value.defining_op
    assert factors is not None
    _drop_operands(op)
    op.rename("math.fma")
    op.operands = []
    for value in (*factors.operands, addend.value):
        add_operand(op, value)


def _drop_operands(op: Operation) -> None:
    for index, value in enumerate(op.operands):
        value.uses.remove((op, index))


def _erase_unused(candidates: list[Operation]) -> None:
    """Remove operations without uses, so that they do not count as uses of their operands."""
    erased: set[Operation] = set()
    blocks: dict[int, Block] = {}
    for op in reversed(candidates):
        if not op.result.uses:
            _drop_operands(op)
            erased.add(op)
            assert op.parent is not None
            blocks[id(op.parent)] = op.parent
    for block in blocks.values():
        block.operations[:] = [op for op in block.operations if op not in erased]
