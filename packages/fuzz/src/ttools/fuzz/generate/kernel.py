"""Generation of a whole kernel: grid, loads, several rules, and stores of the results.

Some rules add functions that the kernel calls, and pointers that are passed to them.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from ttools.fuzz.elements import I32, INTEGERS, POINTER
from ttools.fuzz.facts import Fact, whole, within
from ttools.fuzz.generate import combinations, control, loads, moves, values
from ttools.fuzz.generate.addresses import address, mask, offsets, whole_span
from ttools.fuzz.generate.context import Context, Features, Rule, fill
from ttools.fuzz.memory import PATTERNS
from ttools.fuzz.operations import access
from ttools.fuzz.operations.elementwise import binary, cast
from ttools.fuzz.operations.table import number, program_id, var
from ttools.fuzz.program import Assign, Buffer, Expr, Helper, Program, Store, Type, all_expressions

_PURE: dict[Rule, int] = {
    rule: weight
    for rule, weight in {**values.RULES, **combinations.RULES, **moves.RULES}.items()
    if rule is not combinations.product
}


@dataclass
class _Handed:
    """Memory that is passed to a function by pointer.

    Attributes:
        pointers: Parameters of the function that point to the first element of a program's part.
        buffer: The buffer that they point into.
        span: Number of elements in a program's part.
        loaded: Pointers from which the function loads.
        type: Type of the tile that it loads.
    """

    pointers: list[Expr]
    buffer: Buffer
    span: int
    loaded: Expr
    type: Type


def call(context: Context) -> None:
    """Add a call of a new function, which is inlined or not."""
    if context.depth > 1 or len(context.helpers) > 2:
        return
    noinline = context.chance(0.35)
    args = []
    for _ in range(context.choose((1, 2, 3))):
        # Triton cannot pass tiles to functions that are not inlined.
        argument = context.pick(lambda v: not noinline or not v.type.shape)
        if argument is not None:
            args.append(argument)
    if not args:
        return
    names = [context.fresh("a") for _ in args]
    inner = [var(n, a.type, a.fact) for n, a in zip(names, args, strict=True)]
    with context.nested() as body:
        outside, program = context.scope, context.program
        context.scope, context.program = list(inner), None
        parameters, context.depth = len(context.parameters), 9
        handed = _load_handed(context) if context.chance(0.5) else []
        fill(context, context.rng.randint(1, 4), _PURE)
        if context.chance(0.4):
            _store_handed(context, handed)
        results = _results(context, inner)
        del context.parameters[parameters:]
        context.scope, context.program, context.depth = outside, program, 1
    for memory in handed:
        start = address(context, memory.buffer, number(0, I32), memory.span)
        names += [pointer.attrs["name"] for pointer in memory.pointers]
        args += [start] * len(memory.pointers)
    helper = Helper(
        context.fresh("helper"),
        tuple((n, a.type) for n, a in zip(names, args, strict=True)),
        tuple(body),
        tuple(results),
        noinline,
    )
    context.helpers.append(helper)
    types = [(r.type, r.fact) for r in results]
    attrs = {"name": helper.name}
    made = Expr("call", types[0][0], tuple(args), attrs, types[0][1], tuple(types[1:]))
    context.bind(made)


def _results(context: Context, inner: list[Expr]) -> list[Expr]:
    made = [v for v in context.scope if v not in inner] or inner
    return made[-context.choose((1, 2)) :]


def _parameter(context: Context, buffer: Buffer) -> Expr:
    return var(context.fresh("p"), Type(POINTER, (), buffer.name), Fact())


def _load_handed(context: Context) -> list[_Handed]:
    """Add a load through a pointer that is passed to the function."""
    if len(context.buffers) > 13:
        return []
    element, shape = context.element(), () if context.chance(0.2) else context.shape()
    offset, span = offsets(context, shape, distinct=False)
    data = context.choose(("small", "ramp"))
    # In a loop, an earlier call may have stored any value there through another pointer.
    shared = element in INTEGERS and not context.features.gpu
    fact = whole(element) if shared else PATTERNS[data].fact(element)
    buffer = context.buffer(element, whole_span(context, span), "both" if shared else "in", data)
    parameter = _parameter(context, buffer)
    type_ = Type(element, shape)
    cells = access.advance(parameter, offset)
    context.bind(access.load(cells, type_, fact))
    return [_Handed([parameter], buffer, span, cells, type_)]


def _store_handed(context: Context, handed: list[_Handed]) -> None:
    """Add a store through another pointer, into the buffer that was loaded or into another one."""
    loaded = handed[0] if handed and handed[0].buffer.role == "both" else None
    aliased = loaded is not None and context.chance(0.6)
    value = context.pick(lambda v: not aliased or v.type.element in INTEGERS)
    if value is None or len(context.buffers) > 15:
        return
    offset, span = offsets(context, value.type.shape, distinct=True)
    chosen = mask(context, value.type.shape) if context.chance(0.4) else None
    if loaded is not None and aliased:
        value = cast(value, loaded.buffer.element)
        parameter = _parameter(context, loaded.buffer)
        context.add(Store(access.advance(parameter, offset), value, chosen))
        context.bind(access.load(loaded.loaded, loaded.type, whole(loaded.buffer.element)))
        loaded.pointers.append(parameter)
        loaded.span = max(loaded.span, span)
        larger = replace(loaded.buffer, size=whole_span(context, loaded.span))
        context.buffers[context.buffers.index(loaded.buffer)] = larger
        loaded.buffer = larger
        return
    buffer = context.buffer(
        value.type.element, whole_span(context, span), "out", "ramp", value.fact
    )
    parameter = _parameter(context, buffer)
    cells = access.advance(parameter, offset)
    context.add(Store(cells, value, chosen))
    handed.append(_Handed([parameter], buffer, span, cells, value.type))


RULES: dict[Rule, int] = {call: 4}


_RULES: dict[Rule, int] = {
    **values.RULES,
    **combinations.RULES,
    **moves.RULES,
    **loads.RULES,
    **control.RULES,
    **RULES,
}
_GRIDS = ((1,), (2,), (3,), (5,), (2, 2), (1, 3), (2, 1, 3), (2, 2, 2))
_MOST_STORES = 10


def generate(seed: int, features: Features | None = None) -> Program:
    """Generate the kernel of a seed; equal seeds and features give equal kernels."""
    rng = random.Random(f"ttools-fuzz-{seed}")
    context = Context(rng, features or Features())
    context.grid = (1,) if context.chance(0.45) else context.choose(_GRIDS)
    _number_programs(context)
    for _ in range(context.choose((1, 2, 2, 3))):
        loads.load(context)
    fill(context, context.rng.randint(2, 12), _RULES)
    _store_all(context)
    return Program(
        seed,
        context.grid,
        tuple(context.buffers),
        tuple(context.parameters),
        tuple(context.block),
        tuple(context.helpers),
    )


def _number_programs(context: Context) -> None:
    total, expr = 1, None
    for axis, extent in enumerate(context.grid):
        if extent > 1:
            part: Expr = program_id(axis, extent)
            part = part if total == 1 else binary("mul", part, number(total, I32))
            expr = part if expr is None else binary("add", expr, part)
        total *= extent
    if expr is not None:
        context.add(Assign(("pid",), expr))
        context.program = var("pid", expr.type, within(0, total - 1))
        context.scope.append(context.program)


def _store_all(context: Context) -> None:
    """Store the values that nothing reads, then some of the other values."""
    read = {e.attrs["name"] for e in all_expressions(context.block) if e.op == "var"}
    unread = [v for v in context.scope if v.attrs["name"] not in read]
    others = [v for v in context.scope if v.attrs["name"] in read]
    context.rng.shuffle(others)
    chosen = [*unread, *others[: context.choose((0, 1, 2))]][:_MOST_STORES]
    for value in chosen or others[:1]:
        if value.type.element.kind != "pointer":
            loads.store(context, value)
