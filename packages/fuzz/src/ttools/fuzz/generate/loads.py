"""Rules that access memory: loads, stores, atomics, tensor descriptors, updates in place."""

from __future__ import annotations

from dataclasses import replace

from ttools.fuzz.elements import BF16, F16, F32, F64, FP8, I1, I32, I64, INTEGERS, U32, U64, Element
from ttools.fuzz.facts import Fact, added, either, fits, repeated, whole
from ttools.fuzz.generate.addresses import address, mask, offsets, whole_span
from ttools.fuzz.generate.context import Context, Rule, needed
from ttools.fuzz.generate.values import castable
from ttools.fuzz.memory import PATTERNS
from ttools.fuzz.operations import access
from ttools.fuzz.operations.elementwise import binary, cast, cast_fact
from ttools.fuzz.operations.movement import broadcast_to
from ttools.fuzz.operations.table import full, number
from ttools.fuzz.program import Buffer, DescriptorStore, Expr, Role, Shape, Store, Type

#: Width of the narrowest integers that `tl.atomic_poll` accepts, in bits.
_NARROWEST_POLLED = 16


def _pattern(context: Context, element: Element) -> str:
    if element.is_float:
        if element.bits == 8:
            return context.weighted({"small": 4, "ramp": 3, "bits": 2})
        return context.weighted({"small": 5, "ramp": 3, "fraction": 3, "bits": 2, "special": 1})
    return context.weighted({"small": 4, "ramp": 4, "bits": 4, "special": 2})


def loaded(context: Context, element: Element, shape: Shape, data: str = "") -> Expr:
    """Load a new tile from a new buffer."""
    data = data or _pattern(context, element)
    offset, span = offsets(context, shape, distinct=False)
    buffer = context.buffer(element, whole_span(context, span), "in", data)
    pointers = address(context, buffer, offset, span)
    fact = PATTERNS[data].fact(element)
    type_ = Type(element, shape)
    if context.features.atomic_loads and context.chance(0.1):
        return _atomically_loaded(context, pointers, type_, fact)
    if not context.chance(0.6):
        return context.bind(access.load(pointers, type_, fact))[0]
    other = _other(context, element, type_)
    return context.bind(access.load(pointers, type_, fact, mask(context, shape), other))[0]


def _atomically_loaded(context: Context, pointers: Expr, type_: Type, fact: Fact) -> Expr:
    """Add an atomic load, and sometimes a wait for the loaded value."""
    sem, scope = context.choose(("relaxed", "acquire")), context.choose(("gpu", "cta", "sys"))
    value = context.bind(access.atomic_load(pointers, type_, fact, sem, scope))[0]
    may_poll = type_.element.is_integer and type_.element.bits >= _NARROWEST_POLLED
    if may_poll and context.chance(0.5):
        context.bind(access.atomic_poll(pointers, value))
    return value


def _other(context: Context, element: Element, type_: Type) -> Expr:
    tile = context.pick(lambda v: v.type == type_ and not v.fact.approximate)
    if tile is not None and context.chance(0.3):
        return tile
    if element.is_float and (element.bits == 8 or context.chance(0.5)):
        return number(context.choose((0.0, 1.0, 0.5, -2.0)), element)
    if element is I1:
        return number(context.choose((0, 1)), element)
    return number(context.choose((0, 1, 3, 7)), element)


def load(context: Context) -> None:
    """Add a load of a tile or a scalar."""
    if len(context.buffers) > 14:
        return
    shape = () if context.chance(0.1) else context.shape()
    tile = context.pick(lambda v: bool(v.type.shape))
    if tile is not None and context.chance(0.5):
        shape = tile.type.shape
    loaded(context, context.element(), shape)


def store(context: Context, value: Expr) -> None:
    """Add a store of a value, or of the lanes that a mask selects, to a new buffer."""
    target = value.type.element
    if context.chance(0.35):
        wanted = context.element()
        ready = castable(context, value, wanted)
        if ready is not None and not (wanted in FP8 and value.fact.approximate):
            target = wanted
            if context.chance(0.5) or wanted is I1:
                value = cast(ready, wanted)
    offset, span = offsets(context, value.type.shape, distinct=True)
    fact = cast_fact(value.fact, value.type.element, target)
    data = context.choose(("ramp", "bits"))
    buffer = context.buffer(target, whole_span(context, span), "out", data, fact)
    chosen = mask(context, value.type.shape) if context.chance(0.6) else None
    is_atomic = context.features.atomic_loads and context.chance(0.1)
    context.add(Store(address(context, buffer, offset, span), value, chosen, is_atomic))


def early_store(context: Context) -> None:
    """Add a store in the middle of the kernel."""
    value = needed(context.pick())
    if len(context.buffers) > 16:
        return
    store(context, value)


def repeated_store(context: Context) -> None:
    """Add a store in which several lanes write equal values to one location."""
    value = needed(context.pick(lambda v: 1 in v.type.shape or not v.type.shape))
    if value.fact.approximate:
        return
    shape = tuple(context.choose((2, 4)) if n == 1 else n for n in value.type.shape) or (4,)
    if Type(I32, shape).size > context.features.most_elements:
        return
    offset, span = offsets(context, value.type.shape, distinct=True)
    buffer = context.buffer(
        value.type.element, whole_span(context, span), "out", "ramp", value.fact
    )
    pointers = address(context, buffer, broadcast_to(offset_tensor(offset), shape), span)
    context.add(Store(pointers, broadcast_to(value, shape)))


def offset_tensor(offset: Expr) -> Expr:
    """Return an offset as a scalar of the kernel instead of a Python number."""
    if offset.op != "number":
        return offset
    return full(offset.attrs["value"], Type(I32))


def in_place(context: Context) -> None:
    """Add a load, a store by other lanes to the same elements, and a load of the result."""
    if context.features.gpu or len(context.buffers) > 14:
        return
    element, shape = context.element(), context.shape(rank=context.choose((1, 2)))
    first, first_span = offsets(context, shape, distinct=False)
    second, second_span = offsets(context, shape, distinct=True)
    third, third_span = offsets(context, shape, distinct=False)
    span = max(first_span, second_span, third_span)
    buffer = context.buffer(element, whole_span(context, span), "both", "ramp")
    fact, type_ = PATTERNS["ramp"].fact(element), Type(element, shape)
    value = context.bind(access.load(address(context, buffer, first, span), type_, fact))[0]
    stored, stored_fact = value, fact
    if context.chance(0.5) and element in INTEGERS:
        stored = binary("add", value, number(3, element))
        stored_fact = whole(element)
    chosen = mask(context, shape) if context.chance(0.5) else None
    context.add(Store(address(context, buffer, second, span), stored, chosen))
    pointers = address(context, buffer, third, span)
    context.bind(access.load(pointers, type_, either(fact, stored_fact)))


# ---- atomics

_ATOMIC_INTEGERS = (I32, I64, U32, U64)
_ATOMIC_FLOATS = (F32, F16, BF16)


def atomic(context: Context) -> None:
    """Add an atomic operation whose result in memory does not depend on the order of execution."""
    if len(context.buffers) > 16:
        return
    if context.chance(0.25):
        _float_atomic(context)
        return
    forms = {"add": 3, "max": 2, "min": 2, "and": 1, "or": 1, "xor": 1, "xchg": 1, "cas": 1}
    form = context.weighted(forms)
    value = needed(context.pick(lambda v: v.type.element in _ATOMIC_INTEGERS))
    own = form in ("xchg", "cas") or context.chance(0.4)
    pointers, _ = _atomic_cells(context, value, own)
    chosen = mask(context, value.type.shape) if context.chance(0.5) and form != "cas" else None
    if form == "cas":
        made = access.atomic_cas(pointers, full(1, value.type), value)
    else:
        made = access.atomic(form, pointers, value, chosen)
    # The results of masked lanes are unspecified.
    context.bind(made, visible=own and chosen is None)


def _float_bits_atomic(context: Context) -> None:
    """Add an atomic operation on the bits of floats."""
    value = needed(
        context.pick(
            lambda v: (
                v.type.element in (F32, F64)
                and v.fact.exact
                and not (v.fact.nan or v.fact.signless)
            )
        )
    )
    pointers, _ = _atomic_cells(context, value, own=False)
    chosen = mask(context, value.type.shape) if context.chance(0.5) else None
    form = context.choose(("and", "or", "xor"))
    context.bind(access.atomic(form, pointers, value, chosen), visible=False)


def _float_atomic(context: Context) -> None:
    """Add an atomic sum of floats that is exact in every order, or an atomic on their bits."""
    if context.chance(0.3):
        _float_bits_atomic(context)
        return
    value = needed(
        context.pick(lambda v: v.type.element in _ATOMIC_FLOATS and v.fact.exact and not v.fact.nan)
    )
    count = value.type.size * whole_span(context, 1)
    total = added(repeated(value.fact, count), PATTERNS["small"].fact(value.type.element))
    if not fits(total, value.type.element):
        return
    pointers, buffer = _atomic_cells(context, value, own=False)
    context.buffers[context.buffers.index(buffer)] = replace(buffer, signless=True)
    chosen = mask(context, value.type.shape) if context.chance(0.5) else None
    context.bind(access.atomic("add", pointers, value, chosen), visible=False)


def _atomic_cells(context: Context, value: Expr, own: bool) -> tuple[Expr, Buffer]:
    """Return pointers into a new buffer whose elements are each lane's own, or shared by lanes."""
    offset, span = offsets(context, value.type.shape, distinct=own)
    size = whole_span(context, span) if own else span
    buffer = context.buffer(value.type.element, size, "both", "small")
    if own:
        return address(context, buffer, offset_tensor(offset), span), buffer
    return access.advance(access.pointer(buffer.name), offset_tensor(offset)), buffer


# ---- tensor descriptors


def descriptor(context: Context) -> None:
    """Add an access to a block of a matrix through a tensor descriptor.

    The block may extend past the edge of the matrix.
    """
    if len(context.buffers) > 14:
        return
    element = context.element(arithmetic=True)
    if context.chance(0.15):
        element = context.choose(FP8)
    least = max(1, 16 * 8 // element.bits)
    block = (context.choose((1, 2, 4, 8)), least * context.choose((1, 2)))
    rows, columns = context.rng.randint(1, 2 * block[0]), context.rng.randint(1, 2 * block[1])
    pitch = -(-columns // least) * least + least * context.choose((0, 1))
    offset = (context.rng.randint(0, block[0]), least * context.choose((0, 0, 1)))
    data = _pattern(context, element)
    fact = PATTERNS[data].fact(element)
    size = rows * pitch
    tile = context.pick(lambda v: v.type == Type(element, block))
    if tile is None and context.chance(0.4):
        tile = loaded(context, element, block)
    if tile is not None and context.chance(0.8):
        buffer = _aligned(context, element, size, "out", "ramp", tile.fact)
        base = address(context, buffer, number(0, I32), size)
        context.add(DescriptorStore(base, (rows, columns), (pitch, 1), offset, tile))
        return
    buffer = _aligned(context, element, size, "in", data)
    base = address(context, buffer, number(0, I32), size)
    made = access.descriptor_load(
        base, Type(element, block), (rows, columns), (pitch, 1), offset, fact
    )
    context.bind(made)


def _aligned(
    context: Context,
    element: Element,
    size: int,
    role: Role,
    data: str,
    fact: Fact | None = None,
) -> Buffer:
    """Return a buffer whose address is a multiple of 16 bytes, as descriptors require."""
    made = context.buffer(element, whole_span(context, size), role, data, fact)
    context.buffers[-1] = replace(made, margin=64)
    return context.buffers[-1]


RULES: dict[Rule, int] = {
    load: 8,
    early_store: 3,
    repeated_store: 1,
    in_place: 2,
    atomic: 3,
    descriptor: 3,
}
