"""Matrix products: register-blocked functions over tiles of f32, f64, i16 or i32.

The schedule stores operands in a wider type, so products of narrow floats are exact and sums are in
f32. Operands of f32 are first rounded or split as described in `tensor_core.py`. For each
combination of M, N, K and type, one internal function is generated, whose accumulators stay in
registers along the whole of K. Operands of i8 are stored as i16. If the CPU has an instruction that
multiplies pairs of i16 and adds both products, it is used for two neighbours along K at a time;
the right operand is reordered for this.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence

from ttools.interpreter.emit.function import Emitter, root
from ttools.interpreter.emit.lower.tensor_core import (
    Group,
    Product,
    group_of,
    part_of_f32,
    products_of,
    tensor_core_function,
    zero_for_nan,
)
from ttools.interpreter.llvm.builder import SIZES, Builder
from ttools.interpreter.llvm.value import Label, SSAValue, element_of, lanes_of, vector_type
from ttools.interpreter.tiles.chunk import ZERO, Chunk, Coords, Vector, origin, uniform
from ttools.interpreter.tiles.loops import Loop, OptionalLoop, for_each_chunk, traversal
from ttools.interpreter.tiles.representation import widened_type
from ttools.interpreter.tiles.slot import Slot
from ttools.ir import FloatType, IntegerType, Operation, Value, element_type


@root("tt.dot")
def dot(e: Emitter, op: Operation) -> None:
    a, b, c = op.operands
    left, right = widened_slot(e, a), widened_slot(e, b)
    products = products_of(op, e.options)
    if len(products) > 1:
        _sum_products(e, op, left, right, products)
        return
    for left_part, right_part in products:
        left, right = _part(e, left, left_part), _part(e, right, right_part)
    accumulate(e, op, left, right, c, _group(e, op, products[0] if products else None))


def _group(e: Emitter, op: Operation, parts: Product | None) -> Group | None:
    """Return the group of products that a tensor core adds at once; None to add them one by one."""
    if e.options.dot != "tensor-core":
        return None
    return group_of(element_type(op.operands[0].type), parts, element_type(op.result.type))


def _sum_products(
    e: Emitter, op: Operation, left: Slot, right: Slot, products: Sequence[Product]
) -> None:
    """Fill the slot of the result with c plus the sum of products of parts of the operands."""
    total = e.new_slot(e.slot(op.result).shape, FloatType("f32"))
    e.fill(total, lambda at: uniform(total.element, SSAValue("0.0", "float"), at[0].width))
    lefts = {name: _part(e, left, name) for name in dict.fromkeys(p[0] for p in products)}
    rights = {name: _part(e, right, name) for name in dict.fromkeys(p[1] for p in products)}
    for left_part, right_part in products[:-1]:
        group = _group(e, op, (left_part, right_part))
        multiply(e, lefts[left_part], rights[right_part], total, group)

    def without_nan(at: Coords) -> Chunk:
        chunk = e.read_slot(total, at)
        return Vector(chunk.element, zero_for_nan(e.b, e.vector(chunk)))

    def plus_accumulator(at: Coords) -> Chunk:
        chunk = e.read_slot(total, at)
        c = e.vector(e.evaluate(op.operands[2], at))
        return Vector(chunk.element, e.b.binary("fadd", e.vector(chunk), c))

    e.fill(total, without_nan)
    group = _group(e, op, products[-1])
    multiply(e, lefts[products[-1][0]], rights[products[-1][1]], total, group)
    e.fill(e.slot(op.result), plus_accumulator)


def _part(e: Emitter, slot: Slot, name: str) -> Slot:
    """Return a new slot with one part of an f32 operand, see `tensor_core.PARTS`."""
    part = e.new_slot(slot.shape, slot.element)

    def read(at: Coords) -> Chunk:
        chunk = e.read_slot(slot, at)
        return Vector(chunk.element, part_of_f32(e.b, e.vector(chunk), name))

    e.fill(part, read)
    return part


def accumulate(
    e: Emitter, op: Operation, left: Slot, right: Slot, c: Value, group: Group | None = None
) -> None:
    """Fill the slot of the result of `op` with c + left @ right.

    Args:
        c: The tensor that is added.
        group: The products that a tensor core adds at once; None to add them one by one.
    """
    result = e.slot(op.result)
    element = element_type(op.result.type)
    accumulator = result
    if result.stored_type != widened_type(element):
        accumulator = e.new_slot(result.shape, element, widened=True)
    if not _same_slot(e, c, accumulator):
        e.fill(accumulator, lambda at: e.evaluate(c, at))
    multiply(e, left, right, accumulator, group)
    if accumulator is not result:
        e.copy_slot(accumulator, result)


def _same_slot(e: Emitter, value: Value, slot: Slot) -> bool:
    return e.plan.is_stored(value) and e.slot(value) == slot


def widened_slot(e: Emitter, value: Value) -> Slot:
    """Return an operand in the type in which the product is computed, copied if necessary."""
    slot = e.slot(value)
    if slot.stored_type == widened_type(slot.element):
        return slot
    wide = e.new_slot(slot.shape, slot.element, widened=True)
    e.fill(wide, lambda at: e.read_slot(slot, at))
    return wide


def multiply(
    e: Emitter, left: Slot, right: Slot, accumulator: Slot, group: Group | None = None
) -> None:
    """Emit `accumulator += left @ right`, for each matrix of a batch if there is a leading axis.

    Args:
        accumulator: The matrix that is changed.
        group: The products that a tensor core adds at once; None to add them one by one.
    """
    *batch, m, k = left.shape
    n = right.shape[-1]
    lanes = e.options.lanes
    if group:
        name = tensor_core_function(e.b, m, n, k, group, lanes)
    elif left.stored_type == "i16" and k % 2 == 0 and min(n, lanes) in _PAIR_PRODUCTS:
        right = _in_pairs(e, right)
        name = product_function(e.b, m, n, k // 2, "i32", lanes, pairs=True)
    else:
        if left.stored_type == "i16":
            left, right = (_as_i32(e, slot) for slot in (left, right))
        name = product_function(e.b, m, n, k, accumulator.stored_type, lanes)

    def one(at: Coords) -> None:
        where = (*at[:-2], *origin(2)) if batch else origin(2)
        pointers = [e.slot_address(s, where) for s in (left, right, accumulator)]
        e.b.call("void", name, *pointers)

    for_each_matrix(e, batch, one)


def for_each_matrix(e: Emitter, batch: Sequence[int], body: Callable[[Coords], None]) -> None:
    """Emit `body`, in a loop over the leading axis if there is one."""
    if batch:
        for_each_chunk(e.b, traversal((*batch, 1, 1), 1), body)
    else:
        body(())


#: Instructions that multiply pairs of i16 and add the two products, keyed by the number of i32
#: lanes.
_PAIR_PRODUCTS = {
    4: "llvm.x86.sse2.pmadd.wd",
    8: "llvm.x86.avx2.pmadd.wd",
    16: "llvm.x86.avx512.pmaddw.d.512",
}
if platform.machine() not in ("x86_64", "AMD64"):
    _PAIR_PRODUCTS.clear()


def _as_i32(e: Emitter, slot: Slot) -> Slot:
    wide = e.new_slot(slot.shape, IntegerType(32))

    def read(at: Coords) -> Chunk:
        chunk = e.read_slot(slot, at)
        return Vector(IntegerType(32), e.b.cast("sext", e.vector(chunk), "i32"))

    e.fill(wide, read)
    return wide


def _in_pairs(e: Emitter, slot: Slot) -> Slot:
    """Return a copy of a tile of i16 in which two neighbours along K are packed into one i32.

    The tile has the shape [k][n], and the result the shape [k / 2][n].
    """
    *batch, k, n = slot.shape
    pairs = e.new_slot((*batch, k // 2, n), IntegerType(32))
    name = _pairing_function(e.b, k, n, e.options.lanes)

    def one(at: Coords) -> None:
        where = (*at[:-2], *origin(2)) if batch else origin(2)
        e.b.call("void", name, *[e.slot_address(s, where) for s in (slot, pairs)])

    for_each_matrix(e, batch, one)
    return pairs


def _pairing_function(b: Builder, k: int, n: int, lanes: int) -> str:
    """Define `void f(ptr from, ptr to)`, which interleaves rows 2i and 2i + 1 of a tile of i16."""
    name = b.shared_name(f"ttools.pairs.{k}x{n}")
    if name in b.definitions:
        return f"@{name}"
    width = min(n, lanes)
    vec = vector_type("i16", width)
    order = [source for lane in range(width) for source in (lane, lane + width)]
    with b.function_body() as lines:
        b.start(Label("entry"))
        row, column = OptionalLoop(b, k // 2, 1), OptionalLoop(b, n, width)
        above = b.binary("mul nuw nsw", row.index, 2 * n)
        first = b.binary("add nuw nsw", above, column.index)
        halves = []
        for start in (first, b.binary("add nuw nsw", first, n)):
            p = b.element("i16", SSAValue("%from", "ptr"), start)
            halves.append(b.load(vec, p, 2))
        both = b.shuffled(halves[0], halves[1], order, 2 * width)
        # The rows of pairs are contiguous in memory, like the rows of the tile.
        begin = b.binary("mul nuw nsw", row.index, n)
        target = b.binary("add nuw nsw", begin, column.index)
        p = b.element("i32", SSAValue("%to", "ptr"), target)
        b.store(both, p, 4)
        for loop in (column, row):
            loop.close()
        b.ret()
    arguments = "ptr noalias readonly %from, ptr noalias %to"
    return b.define_function(
        name, f"define internal void @{name}({arguments}) noinline #0", lines, inline=False
    )


def product_function(
    b: Builder, m: int, n: int, k: int, type: str, lanes: int, *, pairs: bool = False
) -> str:
    """Define `void f(ptr a, ptr b, ptr c)`, which computes `c += a @ b` for row-major matrices.

    Args:
        m: The number of rows of a and c.
        n: The number of columns of b and c.
        k: The number of columns of a and rows of b.
        type: The LLVM type of the elements.
        lanes: The number of f32 lanes of a vector register.
        pairs: If True, each i32 of a and b consists of two i16, whose products are both added.
    """
    name = b.shared_name(f"ttools.dot.{m}x{n}x{k}.{'pairs' if pairs else type}")
    if name in b.definitions:
        return f"@{name}"
    width = min(n, lanes // (2 if SIZES[type] == 8 else 1))
    columns = min(n // width, 2)
    # Half of the vector registers are accumulators: 16 of the 32 of AVX-512, else 8 of 16.
    rows = min(m, (16 if lanes >= 16 else 8) // columns)
    with b.function_body() as lines:
        b.start(Label("entry"))
        outer = OptionalLoop(b, n, width * columns)
        inner = OptionalLoop(b, m, rows)
        multiply_add = _add_pair_products if pairs else _multiply_add
        _block(b, (m, n, k), (rows, columns, width), type, inner, outer, multiply_add)
        for loop in (inner, outer):
            loop.close()
        b.ret()
    arguments = "ptr noalias readonly %a, ptr noalias readonly %b, ptr noalias %c"
    return b.define_function(
        name, f"define internal void @{name}({arguments}) noinline #0", lines, inline=False
    )


def _block(
    b: Builder,
    extents: tuple[int, int, int],
    tile: tuple[int, int, int],
    type: str,
    row: OptionalLoop,
    column: OptionalLoop,
    multiply_add: Callable[[Builder, SSAValue, SSAValue, SSAValue], SSAValue],
) -> None:
    """Emit one register block of the result, which accumulates products along K.

    Args:
        extents: M, N and K.
        tile: The number of rows of the block, the number of vectors in a row, and the number of
            lanes of a vector.
        type: The LLVM type of the elements.
        row: The loop over blocks of rows.
        column: The loop over blocks of columns.
        multiply_add: Emits `x * y + total`.
    """
    _, n, k = extents
    rows, columns, width = tile
    vec = vector_type(type, width)
    size = SIZES[type]
    places = [(i, j) for i in range(rows) for j in range(columns)]

    def element(base: SSAValue, r: SSAValue, c: SSAValue, stride: int) -> SSAValue:
        scaled = b.binary("mul nuw nsw", r, stride)
        linear = b.binary("add nuw nsw", scaled, c)
        wide = b.cast("zext", linear, "i64")
        return b.element(type, base, wide)

    def offset(pointer: SSAValue, count: int) -> SSAValue:
        if not count:
            return pointer
        return b.element(type, pointer, count)

    c0 = element(SSAValue("%c", "ptr"), row.index, column.index, n)
    a0 = element(SSAValue("%a", "ptr"), row.index, ZERO, k)
    b0 = element(SSAValue("%b", "ptr"), ZERO, column.index, n)
    cells = [offset(c0, i * n + j * width) for i, j in places]
    sums = [b.load(vec, p, size) for p in cells]
    loop = Loop(b, k, 1, sums)
    step = b.cast("zext", loop.index, "i64")
    line = b.binary("mul nuw nsw", step, n)
    bp = b.element(type, b0, line)
    ap = b.element(type, a0, step)
    rights = [b.load(vec, offset(bp, j * width), size) for j in range(columns)]
    new = []
    for i in range(rows):
        scalar = b.load(type, offset(ap, i * k), size)
        left = b.splat(scalar, width)
        for j in range(columns):
            total = loop.carried[i * columns + j]
            new.append(multiply_add(b, left, rights[j], total))
    loop.close(new)
    for pointer, value in zip(cells, loop.results, strict=True):
        b.store(value, pointer, size)


def _multiply_add(b: Builder, x: SSAValue, y: SSAValue, total: SSAValue) -> SSAValue:
    if element_of(total.type) in ("float", "double"):
        return b.overloaded("fma", x, y, total)
    return b.binary("add", total, b.binary("mul", x, y))


def _add_pair_products(b: Builder, x: SSAValue, y: SSAValue, total: SSAValue) -> SSAValue:
    width = lanes_of(total.type)
    pairs = [b.bitcast(value, vector_type("i16", 2 * width)) for value in (x, y)]
    return b.binary("add", total, b.intrinsic(_PAIR_PRODUCTS[width], total.type, *pairs))
