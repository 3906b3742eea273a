"""Relations between the sizes of a launch that a script may always satisfy.

An example is `o_ptr.shape[0] = n + 1`. A launch contains numbers only. If an extent is 17 where a
size is 16, host code may have computed it as `n + 1`, or the two may be independent. This module
lists the simple expressions over sizes that have the value of a number in every recorded launch of
the kernel. They are candidates: `check` uses one only if a failure disappears under it, and the
report names it.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ttools.ir.expr import SIZE, Expr, Symbol, as_expr, ceildiv, product
from ttools.prove.trace.inference import divisors, size_names
from ttools.prove.trace.launches import TracedCall, axis_name
from ttools.prove.trace.template import Relation, Template, kept_extents

#: Largest difference and largest factor that a single launch may suggest. Larger ones are more
#: likely to be a coincidence, except for constants of the kernel.
_MOST_ADDED, _MOST_TIMES = 2, 16


@dataclass(frozen=True)
class _Form:
    """An expression of a simple form over sizes.

    Attributes:
        sizes: Names of the sizes.
        number: A number that is the same in all launches, or the name of a constant of the kernel.
        is_usual: True if one launch is enough to suggest the expression.
    """

    kind: Literal["blocks", "sum", "multiple", "product"]
    sizes: tuple[str, ...]
    number: int | str = 0
    is_usual: bool = True

    def of(self, values: Mapping[str, Expr], constants: Mapping[str, object]) -> Expr | None:
        """Return the expression; None if a constant is not a positive integer.

        Args:
            values: Expressions or constant values of the sizes.
            constants: Constants of the kernel.
        """
        number = constants.get(self.number) if isinstance(self.number, str) else self.number
        if type(number) is not int or (self.kind == "blocks" and number < 1):
            return None
        first = values[self.sizes[0]]
        if self.kind == "blocks":
            return ceildiv(first, as_expr(number))
        if self.kind == "sum":
            return first + number
        return product(values[n] for n in self.sizes) * (number if self.kind == "multiple" else 1)


def candidates(
    template: Template,
    at_fault: Collection[str],
    launches: Sequence[TracedCall],
    ranges: Collection[str],
) -> list[Relation]:
    """Return relations that hold in all launches of a kernel, the most likely one first.

    Args:
        template: The template of one launch, in which these numbers do not depend on each other.
        at_fault: Parameters whose tensors have too few elements at some sizes.
        launches: All launches of the script, with which relations are compared.
        ranges: Names of sizes for which the user gives a range; they stay independent.
    """
    launch = template.launch
    others = [other for other in launches if other.function is launch.function]
    names = dict.fromkeys([*size_names(launch).values(), *template.sizes])
    symbols = {name: Symbol(name, "size", SIZE) for name in names}
    values = {name: as_expr(symbol) for name, symbol in symbols.items()}
    used = {name for relation in template.relations for name in relation.formula.names}
    relations: list[Relation] = []
    for number, places in _targets(template, at_fault, ranges).items():
        for form in _forms(number, template, launch):
            relations += _relation(form, places, number, values, launch, others)
        own = size_names(launch).get(number)
        for name, size in template.sizes.items():
            # Conversely, the size may be a multiple of this number.
            if number > 1 and own is not None and name not in {*ranges, *used}:
                for form in _multiples(size, own, number, launch):
                    relations += _relation(form, [name], size, values, launch, others)
    return sorted(relations, key=lambda relation: relation.launches < 2)


def _targets(
    template: Template, at_fault: Collection[str], ranges: Collection[str]
) -> dict[int, list[str]]:
    """Return the numbers that a relation may determine, by value; each has one or several names.

    These numbers are independent or constant in the template, and the script does not compute them
    from extents.
    """
    launch = template.launch
    kept = kept_extents(launch) | {relation.number for relation in template.relations}
    targets: dict[int, list[str]] = {}
    for name, layout in template.layouts.items():
        if name not in at_fault:
            continue
        for axis, (extent, formula) in enumerate(
            zip(layout.tensor.shape, layout.shape, strict=True)
        ):
            names = formula.names
            is_size = str(formula) in template.sizes
            if layout.tensor.provenance(axis) is not None or extent < 1 or extent in kept:
                continue
            if (names and not is_size) or names & set(ranges):
                continue
            places = targets.setdefault(extent, [])
            # Among several axes of extent 1, only the first may be an extent that a relation
            # determines.
            if extent > 1 or not any(place.startswith(f"{name}.") for place in places):
                places.append(axis_name(name, axis))
    usual = divisors(launch) | {s for t in launch.tensors.values() for s in t.strides}
    numbers = [(name, f) for name, f in template.scalars.items() if name not in launch.provenances]
    numbers += [
        (f"grid[{n}]", f) for n, f in enumerate(template.grid) if launch.grid_provenances[n] is None
    ]
    for name, formula in numbers:
        value = formula.constant
        if value is not None and value > 1 and value not in {*kept, *usual}:
            targets.setdefault(value, []).append(name)
    sizes = {size: [name] for name, size in template.sizes.items()}
    return {
        number: list(dict.fromkeys([*sizes.get(number, ()), *places]))
        for number, places in targets.items()
    }


def _forms(number: int, template: Template, launch: TracedCall) -> Iterator[_Form]:
    """Yield the expressions with the value `number`, the most likely ones first."""
    sizes = template.sizes
    several = {name: size for name, size in sizes.items() if size not in (1, number)}
    constants = {n: v for n in sorted(launch.constants) if type(v := launch.arguments[n]) is int}
    blocks = {**constants, **template.kept}.items()
    for (name, size), (constant, block) in itertools.product(several.items(), blocks):
        if block > 1 and -(-size // block) == number:
            yield _Form("blocks", (name,), constant)
    near = sorted(several.items(), key=lambda item: abs(number - item[1]))
    usual = {*range(-_MOST_ADDED, _MOST_ADDED + 1)}
    usual |= {n for v in constants.values() if v > 1 for n in (v, v - 1, -v, 1 - v)}
    for name, size in near:
        yield _Form("sum", (name,), number - size, number - size in usual)
    for name, size in several.items():
        yield from _multiples(number, name, size, launch)
    for one, other in itertools.combinations(several, 2):
        if sizes[one] * sizes[other] == number:
            yield _Form("product", (one, other))


def _multiples(number: int, name: str, size: int, launch: TracedCall) -> Iterator[_Form]:
    """Yield the expression of `number` as a multiple of a size."""
    times, rest = divmod(number, size)
    if times > 1 and not rest:
        is_usual = size > 2 and (times <= _MOST_TIMES or times in divisors(launch))
        yield _Form("multiple", (name,), times, is_usual)


def _relation(
    form: _Form,
    places: Sequence[str],
    number: int,
    values: Mapping[str, Expr],
    launch: TracedCall,
    others: Sequence[TracedCall],
) -> Iterator[Relation]:
    """Yield the relation of a form, if it holds in all launches and there is enough evidence."""
    formula = form.of(values, launch.arguments)
    points = set()
    for other in (launch, *others):
        numbers = other.numbers
        if places[0] in numbers and all(name in numbers for name in form.sizes):
            there = {name: as_expr(numbers[name]) for name in form.sizes}
            expected = form.of(there, other.arguments)
            if expected is None or any(expected.constant != numbers.get(p) for p in places):
                return
            points.add(tuple(numbers[name] for name in form.sizes))
    if formula is not None and (form.is_usual or len(points) > 1):
        yield Relation(tuple(places), number, formula, max(1, len(points)))
