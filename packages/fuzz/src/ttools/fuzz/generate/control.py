"""Rules that add nested blocks: loops and branches."""

from __future__ import annotations

from ttools.fuzz.elements import I1, I32, INTEGERS
from ttools.fuzz.facts import Fact, either, fits, repeated, whole, within
from ttools.fuzz.generate import combinations, loads, moves, values
from ttools.fuzz.generate.addresses import address, offsets, whole_span
from ttools.fuzz.generate.context import Context, Rule, fill, needed
from ttools.fuzz.memory import PATTERNS
from ttools.fuzz.operations import access
from ttools.fuzz.operations.elementwise import binary, cast, sum_and_difference
from ttools.fuzz.operations.movement import pair
from ttools.fuzz.operations.table import number, parameter, var
from ttools.fuzz.program import (
    Assign,
    Expr,
    For,
    If,
    Parameter,
    Type,
    While,
)

_INSIDE: dict[Rule, int] = {**values.RULES, **combinations.RULES, **moves.RULES}
_INSIDE_LOADING: dict[Rule, int] = {**_INSIDE, loads.load: 4}


def _carried(
    context: Context, iterations: int, like: Type | None = None
) -> tuple[Expr, Expr] | None:
    """Add a loop-carried variable: return its initial value, and the variable itself."""
    start = context.pick(
        lambda v: not v.fact.approximate and v.type.element is not I1 and like in (None, v.type)
    )
    if start is None:
        return None
    element = start.type.element
    if like is not None and element in INTEGERS:
        # If two variables start with the same value and each iteration swaps them, Triton treats
        # them as constants.
        start = cast(binary("xor", start, number(1, element)), element)
    if element.is_float:
        # Float sums stay exact: the fact covers `iterations` additions of a term with the same
        # facts.
        fact = repeated(start.fact, iterations + 1) if start.fact.exact else start.fact
        fact = either(fact, start.fact)
        if start.fact.exact and not fits(fact, element):
            fact = start.fact
    else:
        fact = whole(element)
    name = context.fresh("c")
    context.add(Assign((name,), start))
    return start, var(name, start.type, fact)


def _update(context: Context, start: Expr, carried: Expr, counter: Expr | None) -> Expr:
    """Return the value of a carried variable after an iteration."""
    element = carried.type.element
    if element in INTEGERS:
        return _integer_update(context, carried, counter)
    exact = start.fact.exact and carried.fact.size > start.fact.size
    if exact and context.chance(0.7):
        term = context.pick(
            lambda v: v.type == start.type and v.fact.implies(start.fact) and not v.fact.nan
        )
        return binary("add", carried, start if term is None else term)
    form = context.choose(("flip", "permute", "reshape", "maximum"))
    made = moves.moved(context, carried, form) if form != "maximum" else None
    if made is None or made.type != carried.type:
        if element.bits == 8:
            return carried
        larger = binary("maximum", carried, start)  # f32 for bf16 in some versions of Triton
        return larger if larger.type == carried.type else cast(larger, element)
    return made


def _integer_update(context: Context, carried: Expr, counter: Expr | None) -> Expr:
    element = carried.type.element
    form = context.choose(("combine", "combine", "counter", "flip", "permute"))
    if form in ("flip", "permute"):
        made = moves.moved(context, carried, form)
        if made is not None and made.type == carried.type:
            return made
    if form == "counter" and counter is not None and element is I32:
        return binary("add", binary("mul", carried, number(3, I32)), counter)
    other = context.pick(
        lambda v: v.type.element in INTEGERS and v.type.shape in ((), carried.type.shape)
    )
    op = context.choose(("add", "sub", "xor", "mul", "maximum", "minimum", "and", "or"))
    made = binary(op, carried, number(5, element) if other is None else other)
    return cast(made, element)


def loop(context: Context) -> None:
    """Add a `for` loop with carried tiles; it may be static, count down, or run no iterations."""
    if context.depth > 2:
        return
    iterations, start, stop, step = _bounds(context)
    static = context.chance(0.25)
    backwards = not static and not iterations and step < 0
    iterations = 0 if backwards else len(range(start, stop, step))
    made = [_carried(context, iterations) for _ in range(context.choose((1, 1, 2, 3)))]
    alike = made[:1]
    if made[0] is not None and context.chance(0.25):
        alike.append(_carried(context, iterations, like=made[0][0].type))
        made.append(alike[1])
    carried = [carry for carry in made if carry is not None]
    if not carried:
        return
    name = context.fresh("i")
    counter = var(name, Type(I32), within(min(start, stop), max(start, stop)))
    if static:
        ends = (number(start, I32), number(stop, I32), number(step, I32))
    elif backwards:
        ends = (_argument(context, start), _argument(context, stop), _argument(context, step))
    else:
        ends = (context.bound(start), context.bound(stop), _step(context, step))
    floats = [inner for _, inner in carried if inner.type.element.is_float]
    pointer = _carried_pointer(context, iterations) if context.chance(0.3) and not static else None
    with context.nested() as body:
        visible = [inner for _, inner in carried if inner not in floats]
        context.scope += visible if static else [*visible, counter]
        if pointer is not None:
            _load_and_advance(context, *pointer)
        fill(context, context.rng.randint(0, 3), _INSIDE_LOADING)
        together = _update_two(context, [carry[1] for carry in alike if carry is not None], counter)
        for outer, inner in carried:
            if inner in together:
                continue
            targets = (inner.attrs["name"],)
            changed = _update(context, outer, inner, counter)
            assert changed.type == inner.type, changed
            context.add(Assign(targets, changed))
        if context.chance(0.2) and context.depth < 3:
            _branch_in(context, visible)
    context.add(For(name, ends, tuple(body), static))
    context.scope += [inner for _, inner in carried]


def _update_two(context: Context, carried: list[Expr], counter: Expr) -> list[Expr]:
    """Update two carried integer tiles at once, each from the other; return the updated ones."""
    tiles = [v for v in carried if v.type.element in INTEGERS and v.type.shape]
    swapped = [v for v in tiles if v.type == tiles[0].type][:2]
    if len(swapped) < 2 or context.chance(0.3):
        return []
    a, b = swapped
    if a.type.element is I32 and context.chance(0.5):
        made = sum_and_difference(a, b, pure=context.chance(0.7))
    else:
        made = pair(b, _integer_update(context, a, counter))
    context.rng.shuffle(swapped)
    context.add(Assign(tuple(v.attrs["name"] for v in swapped), made))
    return swapped


def _branch_in(context: Context, visible: list[Expr]) -> None:
    """At the end of a loop, add a branch that changes a carried integer."""
    if not visible:
        return
    inner = context.choose(visible)
    if inner.type.element not in INTEGERS:
        return
    with context.nested() as then:
        changed = cast(binary("xor", inner, number(1, inner.type.element)), inner.type.element)
        context.add(Assign((inner.attrs["name"],), changed))
    context.add(If(_condition(context), tuple(then)))


def _bounds(context: Context) -> tuple[int, int, int, int]:
    """Return iterations, start, stop and step of a loop."""
    form = context.weighted({"up": 8, "none": 1, "down": 2, "backwards": 1})
    if form == "none":
        return 0, 3, context.choose((3, 0)), 1
    if form == "backwards":
        return 0, context.choose((5, 40)), -3, context.choose((-1, -2))
    iterations, step = context.rng.randint(1, 5), context.choose((1, 1, 2, 3))
    start = context.choose((0, 0, 1, -2))
    if form == "up":
        return iterations, start, start + (iterations - 1) * step + 1, step
    return iterations, start + iterations * step, start, -step


def _step(context: Context, step: int) -> Expr:
    # The semantics differ if a negative step is known only at run time, see `oracle`.
    return context.bound(step) if step > 0 else number(step, I32)


def _argument(context: Context, value: int) -> Expr:
    name = context.fresh("n")
    context.parameters.append(Parameter(name, value))
    return parameter(name, value)


def _carried_pointer(context: Context, iterations: int) -> tuple[Expr, int, str] | None:
    """Add pointers that a loop advances; return the variable, the stride and the data's pattern."""
    if len(context.buffers) > 14:
        return None
    tile = context.pick(lambda v: bool(v.type.shape))
    shape = context.shape() if tile is None else tile.type.shape
    element = context.element()
    offset, span = offsets(context, shape, distinct=False)
    stride = context.choose((1, span, 2))
    total = span + stride * max(iterations, 1)
    data = context.choose(("small", "ramp"))
    buffer = context.buffer(element, whole_span(context, total), "in", data)
    start = address(context, buffer, loads.offset_tensor(offset), total)
    name = context.fresh("p")
    context.add(Assign((name,), start))
    return var(name, start.type, Fact()), stride, data


def _load_and_advance(context: Context, pointer: Expr, stride: int, data: str) -> None:
    buffer = next(b for b in context.buffers if b.name == pointer.type.buffer)
    fact = PATTERNS[data].fact(buffer.element)
    context.bind(access.load(pointer, Type(buffer.element, pointer.type.shape), fact))
    moved = access.advance(pointer, number(stride, I32))
    context.add(Assign((pointer.attrs["name"],), moved))


def endless_looking(context: Context) -> None:
    """Add a `while` loop that ends after a few iterations, with carried integers."""
    if context.depth > 2:
        return
    start, carried = needed(_carried(context, 0))
    if start.type.element not in INTEGERS:
        return
    counter = var(context.fresh("w"), Type(I32), whole(I32))
    context.add(Assign((counter.attrs["name"],), number(0, I32)))
    limit = context.bound(context.rng.randint(0, 5))
    with context.nested() as body:
        context.scope += [carried, counter]
        fill(context, context.rng.randint(0, 2), _INSIDE)
        context.add(Assign((carried.attrs["name"],), _update(context, start, carried, counter)))
        more = binary("add", counter, number(1, I32))
        context.add(Assign((counter.attrs["name"],), more))
    context.add(While(binary("lt", counter, limit), tuple(body)))
    context.scope += [carried]


# ---- branches


def _condition(context: Context) -> Expr:
    scalar = context.pick(lambda v: v.type.element in INTEGERS and not v.type.shape)
    if scalar is not None and context.chance(0.5):
        bit = binary("and", scalar, number(1, scalar.type.element))
        return binary("eq", bit, number(context.choose((0, 1)), scalar.type.element))
    if context.program is not None and context.chance(0.7):
        bit = binary("and", context.program, number(1, I32))
        return binary("eq", bit, number(0, I32))
    value = context.rng.randint(0, 20)
    return binary("gt", _some_argument(context, value), number(context.choose((5, 15)), I32))


def _some_argument(context: Context, value: int) -> Expr:
    for existing in context.parameters:
        if not existing.constexpr and existing.value not in (0, 1):
            return parameter(existing.name, existing.value)
    return _argument(context, value if value not in (0, 1) else 2)


def branch(context: Context) -> None:
    """Add a branch on a scalar that gives one or two tiles different values."""
    if context.depth > 2:
        return
    picked = [context.pick(lambda v: v.type.element.kind != "pointer")]
    if context.chance(0.4):
        picked.append(context.pick(lambda v: bool(v.type.shape)))
    starts = [start for start in picked if start is not None]
    if not starts:
        return
    condition = _condition(context)
    names = [context.fresh("r") for _ in starts]
    facts = [start.fact for start in starts]
    for name, start in zip(names, starts, strict=True):
        context.add(Assign((name,), start))
    blocks = []
    for _ in range(context.choose((1, 2))):
        with context.nested() as block:
            if context.chance(0.3):
                loop(context)
            fill(context, context.rng.randint(1, 3), _INSIDE_LOADING)
            if context.chance(0.2):
                branch(context)
            # The last value, which may come from a loop or a branch, is often yielded, even twice.
            latest = context.chance(0.3)
            for n, start in enumerate(starts):
                side = _side(context, start, latest)
                context.add(Assign((names[n],), side))
                facts[n] = either(facts[n], side.fact)
        blocks.append(tuple(block))
    context.add(If(condition, blocks[0], blocks[1] if len(blocks) > 1 else ()))
    context.scope += [
        var(name, start.type, fact) for name, start, fact in zip(names, starts, facts, strict=True)
    ]


def _side(context: Context, start: Expr, latest: bool) -> Expr:
    """Return the value that one side of a branch assigns to a variable with the value `start`."""
    if latest:
        made = (v for v in reversed(context.scope) if v.type == start.type)
        return next(made, start)
    return context.pick(lambda v: v.type == start.type) or start


RULES: dict[Rule, int] = {loop: 5, endless_looking: 4, branch: 4}
