"""Inference of the template of a launch, in which numbers are expressions over sizes.

The expression of a traced integer is known. For any other number, the expression is guessed from
equal values, and each guess is an assumption in the report.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from ttools.core.gpus.memory import DEFAULT_MEMORY, memory_text
from ttools.ir.expr import SIZE, Expr, Symbol, as_expr, ceildiv, product, with_symbols
from ttools.prove.grids import grid_limits
from ttools.prove.trace.launches import TracedCall, axis_name
from ttools.prove.trace.template import (
    LARGE_SIZE,
    Layout,
    Relation,
    Template,
    is_dense,
    kept_extents,
    layout_of,
    of_shared_storages,
    shape_of,
)
from ttools.prove.trace.traced import extent as extent_of
from ttools.prove.trace.traced import (
    extents_of,
    rounded_extents,
    runs_of,
    traced_value,
    with_extents,
)

#: An extent of a buffer is assumed to count blocks only if it is at least this number. A smaller
#: extent is more likely to be the size of a batch or a number of heads.
_LEAST_BLOCKS = 5


def infer_template(
    launch: TracedCall,
    freed: Collection[str],
    memory: int | None = None,
    by_axis: bool = False,
    relations: Sequence[Relation] = (),
) -> Template:
    """Infer the template of a launch.

    Args:
        freed: Names of sizes for which the user gives a range. A name of an integer argument that
            is not computed from extents makes this argument an independent size.
        memory: Bytes that the tensors of the launch may take; sizes at which they take more are not
            considered. The default is 80 GB, or no limit if the user gives a range for every size.
        by_axis: If True, an extent of the grid that equals the extent of an axis is assumed to be
            that extent instead of a number of blocks of an argument, and an extent of the grid that
            equals the number of blocks of a constant axis is assumed to be constant.
        relations: Relations between sizes that are assumed.
    """
    names = size_names(launch)
    every = {n: as_expr(Symbol(name, "size", SIZE)) for n, name in names.items()}
    used = _explaining(launch, names, every)
    constants = divisors(launch)
    fixed_by = kept_extents(launch)
    for name in launch.constants - launch.decided:
        source = launch.provenances.get(name)
        if source is not None and not any(source.atoms()):
            fixed_by |= extents_of(source)
    for source in _followed(launch, constants=False):
        fixed_by |= rounded_extents(source)  # host code takes a different path for each power
    symbols = {symbol.name: symbol for expr in every.values() for symbol in expr.symbols()}
    numbers = {n: v for n, v in launch.arguments.items() if type(v) is int}
    numbers = {n: v for n, v in numbers.items() if n not in launch.constants}
    free = {
        n: v for n, v in numbers.items() if n in freed and n not in {*symbols, *launch.provenances}
    }
    symbols |= {name: Symbol(name, "size", SIZE) for name in free}
    formulas = [with_symbols(relation.formula, symbols) for relation in relations]
    placed = {p: f for r, f in zip(relations, formulas, strict=True) for p in r.places}
    varied = {name for formula in formulas for name in formula.names} | {*freed}
    sizes = {
        name: number
        for number, name in names.items()
        if number not in fixed_by
        and (name in varied or (number in used and number not in constants))
    }
    # A size that a relation determines is replaced wherever it occurs.
    related = {sizes.pop(name): formula for name, formula in placed.items() if name in sizes}
    named = {number: every[number] for number in sizes.values()} | related
    sizes |= free
    origins = _origins(launch, sizes, named)
    computed = _computed(launch)
    derived = {n: f for n in _derived(launch) if (f := origins.of(n)) is not None}
    derived |= {n: with_extents(source, named) for n, source in computed.items()}
    shapes = {n: shape_of(t, {**derived, **named}) for n, t in launch.tensors.items()}
    layouts = of_shared_storages(
        {
            n: layout_of(t, [placed.get(axis_name(n, axis), f) for axis, f in enumerate(shapes[n])])
            for n, t in launch.tensors.items()
        }
    )
    strides: dict[int, Expr] = {}
    for layout in layouts.values():
        for number, formula in zip(layout.tensor.strides, layout.strides, strict=True):
            if number not in strides or not strides[number].names:
                strides[number] = formula
    # A number that equals a constant extent or stride is more likely to be a constant than an
    # expression that has this value by coincidence.
    fixed = {number for number, formula in strides.items() if formula.constant is not None} | {
        number
        for layout in layouts.values()
        for number, formula in zip(layout.tensor.shape, layout.shape, strict=True)
        if formula.constant is not None
    }
    passed = _strides_passed(launch, layouts)
    taken = {n: with_extents(source, named) for n, source in launch.taken.items()}
    scalars: dict[str, Expr] = {}
    for name, value in numbers.items():
        source = launch.provenances.get(name)
        expr = with_extents(source, named) if source is not None else passed.get(name)
        expr = placed.get(name) or expr or named.get(value)
        expr = expr or taken.get(value) or strides.get(value)
        expr = expr or (None if value in fixed else origins.of(value))
        scalars[name] = as_expr(symbols[name]) if name in free else expr or as_expr(value)
    kept = {n: v for n, v in numbers.items() if scalars[n].constant is not None}
    kept = {n: v for n, v in kept.items() if n not in passed and (v == 1 or v not in strides)}
    kept = {n: v for n, v in kept.items() if "stride" not in n.lower()}
    # An extent of the grid is more likely to be the number of blocks of an argument than the extent
    # of an axis that equals no argument.
    counts = [
        ceildiv(f, as_expr(b)) for f in scalars.values() if f.names for b in sorted(constants)
    ]
    of_scalars = {f.at(sizes): f for f in reversed(counts) if f.at(sizes) > 1}
    no_blocks = set(_scalars(launch)) | (set(named) if by_axis else set())
    blocks = {-(-e // b) for e in fixed for b in constants} - set(named) if by_axis else set()
    grid = [
        (None if extent in no_blocks else of_scalars.get(extent))
        or origins.of(extent)
        or as_expr(extent)
        if extent not in blocks
        else as_expr(extent)
        for extent in launch.grid
    ]
    _keep_batches(grid, launch, layouts)
    for axis, source in enumerate(launch.grid_provenances):
        if source is not None:
            grid[axis] = with_extents(source, named)
        grid[axis] = placed.get(f"grid[{axis}]", grid[axis])
    if memory is None and not sizes.keys() <= {*freed}:
        memory = DEFAULT_MEMORY
    stated = _stated(launch, layouts, scalars, grid, sizes)
    if sizes and memory is not None:
        stated.append(f"the tensors of a launch fit in {memory_text(memory)} of memory")
    for axis, formula in enumerate(grid):
        if formula.names:
            stated.append(
                f"at sizes beyond {LARGE_SIZE:,}, grid[{axis}] is at most "
                f"{grid_limits()[axis]:,}, because larger grids cannot be launched"
            )
    sources = {
        n: source
        for n, source in launch.provenances.items()
        if n in launch.constants - launch.decided
    }
    constant_formulas = {
        n: f for n, source in sources.items() if (f := with_extents(source, named)).names
    }
    template = Template(launch, sizes, layouts, scalars, grid, memory, stated, constant_formulas)
    return replace(template, by_axis=by_axis, relations=relations, kept=kept)


def _strides_passed(launch: TracedCall, layouts: Mapping[str, Layout]) -> dict[str, Expr]:
    """Return expressions for consecutive arguments that are the strides of a tensor.

    The tensor's last stride may be missing from the arguments.
    """
    numbers = [
        (name, value)
        for name, value in launch.arguments.items()
        if type(value) is int and name not in launch.constants
    ]
    result: dict[str, Expr] = {}
    left, start = list(layouts.values()), 0
    while start < len(numbers):
        for layout in left:
            strides = layout.tensor.strides
            for length in (len(strides), len(strides) - 1):
                part = numbers[start : start + length]
                if length > 1 and [value for _, value in part] == [*strides[:length]]:
                    break
            else:
                continue
            result |= {name: f for (name, _), f in zip(part, layout.strides, strict=False)}
            left.remove(layout)
            start += length
            break
        else:
            start += 1
    return result


def _keep_batches(grid: list[Expr], launch: TracedCall, layouts: Mapping[str, Layout]) -> None:
    """Make constant those extents of the grid that equal a number of blocks only by coincidence.

    Only one axis of a grid is assumed to count the blocks of a size. If a different axis of the
    grid equals the product of two constant axes of a tensor, for example a batch and its heads, it
    is assumed to be that product.
    """
    kept = [
        [
            e
            for e, f in zip(layout.tensor.shape, layout.shape, strict=True)
            if f.constant is not None and e > 1
        ]
        for layout in layouts.values()
    ]
    products = {one * other for layout in kept for one, other in itertools.combinations(layout, 2)}
    counts = [n for n, formula in enumerate(grid) if _counts_blocks(formula)]
    for axis in reversed(counts):
        among = [n for n in counts if n != axis and grid[n].names == grid[axis].names]
        if among and launch.grid[axis] in products:
            grid[axis] = as_expr(launch.grid[axis])


def _counts_blocks(formula: Expr) -> bool:
    """Return whether an expression is a product of numbers of blocks."""
    symbols = formula.symbols()
    return bool(symbols) and all(symbol.kind == "floordiv" for symbol in symbols)


def divisors(launch: TracedCall) -> set[int]:
    """Return the constants of the kernel that host code may have divided by."""
    names = launch.constants - launch.decided
    return {v for n in names if type(v := launch.arguments[n]) is int and v > 1}


def _scalars(launch: TracedCall) -> dict[int, str]:
    """Return the name of the first argument with each value, by value.

    An argument whose name contains `stride` is used only if no other argument has the value. A
    number whose provenance is something other than an extent is left out.
    """
    numbers = [argument for argument in launch.arguments.items() if type(argument[1]) is int]
    numbers = [argument for argument in numbers if argument[0] not in launch.constants]
    numbers = [
        (n, v) for n, v in numbers if launch.provenances.get(n, extent_of(v)) == extent_of(v)
    ]
    numbers.sort(key=lambda argument: "stride" in argument[0].lower())
    return {v: n for n, v in reversed(numbers)}


def _followed(launch: TracedCall, constants: bool = True) -> list[Expr]:
    """Return the known provenances of the numbers of a launch."""
    traced = launch.provenances.items()
    numbers = [source for n, source in traced if constants or n not in launch.constants]
    grid = [source for source in launch.grid_provenances if source is not None]
    shapes = [
        source for t in launch.tensors.values() for source in t.provenances if source is not None
    ]
    return [*numbers, *grid, *shapes]


def _read(launch: TracedCall) -> frozenset[int]:
    """Return the extents from which the script computed other numbers of the launch."""
    return frozenset().union(*map(extents_of, _followed(launch)))


def _computed(launch: TracedCall) -> dict[int, Expr]:
    """Return expressions for extents without provenance that equal exactly one traced number."""
    unknown = {
        e for t in launch.tensors.values() for n, e in enumerate(t.shape) if not t.provenance(n)
    }
    computed: dict[int, set[Expr]] = {e: set() for e in unknown - _read(launch) if e > 1}
    for source in _followed(launch, constants=False):
        value = traced_value(source)
        if value in computed and source.constant is None:
            computed[value].add(source)
    return {e: next(iter(sources)) for e, sources in computed.items() if len(sources) == 1}


def _derived(launch: TracedCall) -> set[int]:
    """Return extents that follow from others: products of extents, and block counts in the grid."""
    tensors = launch.tensors.values()
    extents = {e for t in tensors for n, e in enumerate(t.shape) if t.provenance(n) is None}
    products = {math.prod(run) for t in tensors for run in runs_of(t.shape)}
    # If an axis equals the product of other axes of the same tensor, this is only a coincidence.
    products = {p for p in products if not _is_beside(p, launch)}
    runs = [tuple(run) for t in tensors for run in runs_of(t.shape)] + [(e,) for e in extents]
    counts = {
        count
        for run in runs
        for b in divisors(launch)
        if (count := -(-math.prod(run) // b)) not in run and count >= _LEAST_BLOCKS
    }
    derived = products | (counts & set(launch.grid))
    # An extent from which the script computes other numbers is assumed not to be computed itself.
    return (extents & derived) - set(_scalars(launch)) - _read(launch) - {1}


def _is_beside(number: int, launch: TracedCall) -> bool:
    """Return whether each tensor with `number` as a product of extents also has it as an extent."""
    return all(
        number in t.shape
        for t in launch.tensors.values()
        if number in map(math.prod, runs_of(t.shape))
    )


def size_names(launch: TracedCall) -> dict[int, str]:
    """Return a name for each extent above 1: the name of an equal argument, or else of the axis.

    An axis is named as in Python, such as `x_ptr.shape[0]`. An extent of a tensor that is not
    passed to the kernel is named after its length.
    """
    scalars, derived = _scalars(launch), _derived(launch) | _computed(launch).keys()
    names: dict[int, str] = {}
    for name, tensor in launch.tensors.items():
        for axis, length in enumerate(tensor.shape):
            is_extent = tensor.provenance(axis) in (None, extent_of(length))
            if length > 1 and length not in derived and is_extent:
                names.setdefault(length, scalars.get(length, axis_name(name, axis)))
    for source in _followed(launch):
        for length in sorted(extents_of(source) - names.keys()):
            names[length] = scalars.get(length, _extent_name(length))
    return names


def _extent_name(length: int) -> str:
    """Return the name of an extent that no tensor of the launch has."""
    return f"extent_{length}"


def _origins(launch: TracedCall, sizes: Mapping[str, int], named: Mapping[int, Expr]) -> Origins:
    shapes = [shape_of(tensor, named) for tensor in launch.tensors.values()]
    return Origins(sizes, named.values(), shapes, sorted(divisors(launch)))


def _explaining(
    launch: TracedCall, names: Mapping[int, str], named: Mapping[int, Expr]
) -> set[int]:
    """Return the extents from which an argument or the grid may be computed."""
    every = {name: number for number, name in names.items()}
    origins = _origins(launch, every, named)
    numbers = [v for n, v in launch.arguments.items()
               if n not in launch.constants and n not in launch.provenances]  # fmt: skip
    traced = [*launch.provenances.items(), *enumerate(launch.grid_provenances)]
    used = {
        e
        for n, source in traced
        if source and n not in launch.constants
        for e in extents_of(source)
    }
    numbers += [e for e, n in zip(launch.grid, launch.grid_provenances, strict=True) if n is None]
    for number in numbers:
        expr = origins.of(number) if type(number) is int else None
        used |= {every[name] for name in expr.names} if expr is not None else set()
    return used


def _stated(
    launch: TracedCall,
    layouts: Mapping[str, Layout],
    scalars: Mapping[str, Expr],
    grid: Sequence[Expr],
    sizes: Mapping[str, int],
) -> list[str]:
    """Return sentences that describe the assumptions."""
    numbers: list[tuple[str, Expr, Expr | None]] = []
    for name, layout in layouts.items():
        shape = enumerate(layout.shape)
        numbers += [(axis_name(name, n), f, layout.tensor.provenance(n)) for n, f in shape]
        if not is_dense(layout.tensor):
            numbers += [(f"{name}.stride({n})", f, None) for n, f in enumerate(layout.strides)]
    numbers += [(n, f, launch.provenances.get(n)) for n, f in scalars.items()]
    axes = enumerate(grid)
    numbers += [(f"grid[{n}]", f, launch.grid_provenances[n]) for n, f in axes if f.constant != 1]
    numbers = [(what, f, source) for what, f, source in numbers if str(f) != what]
    kernel = launch.kernel
    free = [f"{what} = {f}" for what, f, source in numbers if f.names and source is None]
    traced = [f"{what} = {f}" for what, f, source in numbers if f.names and source is not None]
    fixed = [f"{what} = {f}" for what, f, _ in numbers if f.constant is not None]
    fixed += [
        f"{n} = {v!r}"
        for n, v in launch.arguments.items()
        if (n in launch.constants or type(v) in (bool, float)) and n not in launch.decided
    ]
    stated = []
    if free:
        stated.append(f"for `{kernel}`: {', '.join(free)}")
    if traced:
        stated.append(f"for `{kernel}`, as computed by the script: {', '.join(traced)}")
    if fixed:
        stated.append(f"for `{kernel}`, at all sizes: {', '.join(fixed)}")
    stated += [
        f"for `{kernel}`: {name} is the extent of a tensor that the kernel does not receive, "
        f"{number:,} in the recorded launch"
        for name, number in sizes.items()
        if name == _extent_name(number)
    ]
    lost = [
        n for n in scalars if n not in launch.provenances and launch.arguments[n] in launch.taken
    ]
    lost += [
        f"grid[{n}]"
        for n, (e, source) in enumerate(zip(launch.grid, launch.grid_provenances, strict=True))
        if source is None and e in launch.taken
    ]
    if lost:
        plain = "guessed, because `int` or `len` returned plain integers"
        stated.append(f"for `{kernel}`, {plain}: {', '.join(lost)}")
    return stated


class Origins:
    """Maps a number that occurs in one launch to the expression over sizes that explains it.

    If several expressions have the same value in this launch, the most likely one is kept.

    Args:
        sizes: Values of the sizes in this launch, by name.
        named: Expressions of the sizes, in the order of `sizes`.
        shapes: Expressions of the tensors' extents.
        block_sizes: Constants by which host code may have divided to compute numbers of blocks.
    """

    def __init__(
        self,
        sizes: Mapping[str, int],
        named: Iterable[Expr],
        shapes: Sequence[Sequence[Expr]],
        block_sizes: Iterable[int],
    ) -> None:
        self._sizes = sizes
        self._known: dict[int, Expr] = {}
        lengths = [b for b in dict.fromkeys(block_sizes) if b > 1]
        plain = [*named, *(product(part) for shape in shapes for part in runs_of(shape))]
        counts = [ceildiv(f, as_expr(b)) for f in plain for b in lengths]
        for formula in (*plain, *counts):
            self._add(formula)
        # Of the products of numbers of blocks, only those of different sizes are considered; other
        # products would match by coincidence.
        several = [f for f in counts if f.names and f.at(sizes) > 1]
        for one, other in itertools.product(several[:40], [*several, *plain][:40]):
            if other.names and not one.names & other.names:
                self._add(one * other)
        for f, b in itertools.product(plain, lengths):
            if (count := ceildiv(f, as_expr(b))).at(sizes) > 1:
                self._add(count * b)

    def _add(self, formula: Expr) -> None:
        if formula.constant is None and (number := formula.at(self._sizes)) > 1:
            self._known.setdefault(number, formula)

    def of(self, number: int) -> Expr | None:
        """Return the most likely expression with a value; None if there is none."""
        return self._known.get(number)
