"""The plan of a verification: its cases and their order.

The cases that find the most failures for their cost come first. The number of cases does not depend
on the speed of the machine.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ttools.verifier.cases.domain import Domain
from ttools.verifier.cases.tensors import VIEWS
from ttools.verifier.cases.values import KINDS
from ttools.verifier.workers.results import Passes

#: Sizes that are not multiples of a block, for ordinary cases and for larger cases.
_ORDINARY, _LARGER = (13, 17, 11, 19, 7, 5), (67, 41, 53, 37, 29, 23)
#: Kinds of values that are run with every type, because types differ in precision and overflow.
_OF_EVERY_TYPE = ("nan", "infinities", "scaled", "shifted", "large negative")
#: Kinds of values whose maximum is the last or the first element, to detect blocks that a kernel
#: skips.
_LAST_COUNTS = ("ascending", "descending")
#: Kinds of values with several equal maxima, to detect a kernel in which an equal maximum of a
#: later block replaces the earlier one.
_TIED = ("equal", "ties")
#: Number of configurations that run with several sizes; all further configurations run with one
#: size.
_WELL_TRIED = 8
#: Limit on the product of a case's sizes, if the domain allows such small sizes.
_MOST_ELEMENTS = 4_000_000


@dataclass(frozen=True, kw_only=True)
class Case:
    """One call, or one step of a sequence of calls.

    Attributes:
        sizes: Values of the integer parameters of `inputs`.
        choices: For each other parameter, the index of its value.
        seed: Value of the parameter `seed` of `inputs`.
        values: Kind of special values for floats, from `KINDS`; `drawn` for none.
        values_of: Kinds of values for single arguments that differ from `values`, by name.
        views: Memory layouts by argument; `*` is for all arguments without an entry.
        config: Number of the autotuner's configuration; None to leave the autotuner unchanged.
        after: Earlier calls in the same process.
        reuse: If True, the call uses the tensors of the previous call with new values. If
            `address`, it uses new tensors at the same addresses.
        shared: Names of two arguments that are one tensor: the first argument is passed as the
            second, too.
        only_grad: The only argument whose gradient is computed; empty for all arguments that
            require one.
        only_output: Name of the only result from which gradients are computed, such as
            `result[0]`; empty for all results that require one.
        passes: How often gradients are computed from one graph of operators, see
            `results.BackwardPass`.
        late_grad: If True, the function is called with different inputs before gradients are
            computed.
        order: Order of the programs, and the seed of a random order.
    """

    sizes: dict[str, int]
    choices: dict[str, int] = field(default_factory=dict)
    seed: int = 0
    values: str = "drawn"
    values_of: dict[str, str] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)
    config: int | None = None
    after: tuple[Case, ...] = ()
    reuse: bool | Literal["address"] = False
    shared: tuple[str, str] | None = None
    only_grad: str = ""
    only_output: str = ""
    passes: Passes = "once"
    late_grad: bool = False
    order: tuple[str, int] | None = None

    @property
    def is_special(self) -> bool:
        """True if an argument has values that `inputs` would not draw."""
        return self.values not in ("drawn", "permuted") or bool(self.values_of)

    @property
    def alone(self) -> Case:
        """Return this case without earlier calls and without further calls or backward passes."""
        passes: Passes = "once" if self.passes == "twice" else self.passes
        return replace(self, after=(), reuse=False, late_grad=False, passes=passes)

    @property
    def weight(self) -> tuple[int, int, int]:
        """Return a sort key that is smaller for simpler cases; the simplest failure is reported."""
        plain = (
            (self.values != "drawn" or self.values_of != {})
            + (self.views != {})
            + (self.config is not None)
            + (self.shared is not None)
            + (self.only_grad != "")
            + (self.only_output != "")
            + (self.passes != "once")
            + self.late_grad
        )
        return (len(self.after) + plain, sum(self.sizes.values()), self.seed)


class Plan:
    """Makes the cases of a domain."""

    def __init__(self, domain: Domain, seed: int = 0) -> None:
        self._domain = domain
        self._index = 0
        self._seed = seed * 1000

    # ---- sizes
    def _clamped(self, name: str, value: int) -> int:
        low, high = self._domain.sizes[name]
        return max(low, min(high, value))

    def ordinary(self, values: Sequence[int] = _ORDINARY) -> dict[str, int]:
        """Return sizes that differ from each other and are not multiples of a block."""
        sizes = {}
        for index, (name, (low, high)) in enumerate(self._domain.sizes.items()):
            wanted = values[index % len(values)]
            if wanted > high:  # keep the sizes different even if the domain is small
                wanted = max(low, high - index if high - index > low else high)
            sizes[name] = self._clamped(name, wanted)
        return sizes

    def _case(self, sizes: dict[str, int], **others: Any) -> Case:
        """Return a case with the next seed and the next combination of choices."""
        self._index += 1
        choices = {
            name: (self._index // (index + 1)) % len(labels)
            for index, (name, labels) in enumerate(self._domain.choices.items())
        }
        others.setdefault("choices", choices)
        fitting = fitted(sizes, self._domain.sizes)
        return Case(sizes=fitting, seed=self._seed + self._index, **others)

    def _combinations(self) -> Iterator[dict[str, int]]:
        """Yield combinations of choices that together contain each value of each choice."""
        longest = max(map(len, self._domain.choices.values()), default=1)
        for index in range(longest):
            yield {name: index % len(labels) for name, labels in self._domain.choices.items()}

    # ---- parts of the plan
    def begin(self) -> Iterator[Case]:
        """Yield cases with ordinary sizes, and with each value of each choice.

        Running them also reveals the block sizes and the configurations of the autotuners.
        """
        for choices in self._combinations():
            yield self._case(self.ordinary(), choices=choices)

    def edges(self) -> Iterator[Case]:
        """Yield cases with extreme sizes, for one parameter at a time and for all at once."""
        names, ranges = list(self._domain.sizes), self._domain.sizes
        yield self._case(self.ordinary(_LARGER))
        lowest = {name: low for name, (low, _) in ranges.items()}
        candidates = [lowest, self._all(1)]
        for value in (0, 1, 2):
            candidates += [
                {**self.ordinary(), name: value}
                for name, (low, high) in ranges.items()
                if low <= value <= high
            ]
        candidates += [{**self.ordinary(), name: high} for name, (_, high) in ranges.items()]
        yield from (self._case(sizes) for sizes in _distinct(candidates))
        highest = {name: high for name, (_, high) in ranges.items()}
        if names and highest not in candidates:
            for choices in self._combinations():
                yield self._case(highest, choices=choices)

    def sequences(self, arguments: Sequence[str]) -> Iterator[Case]:
        """Yield sequences of calls whose results are wrong if a candidate keeps state between them.

        Args:
            arguments: Names of the arguments that are tensors.
        """
        for choices in self._combinations():
            sizes = self.ordinary()
            first = self._case(sizes, choices=choices)
            second = replace(first, seed=first.seed + 500, reuse=True, after=(first,))
            yield second
            third = replace(first, seed=first.seed + 500, values="permuted", reuse=True)
            yield replace(third, after=(first, replace(second, after=())))
            # Allocators reuse freed memory, so a new tensor can have the address of an old one.
            yield replace(second, seed=first.seed + 700, reuse="address")
            other = self._case(self.ordinary(_LARGER), choices=choices)
            small = self._case({k: self._clamped(k, 3) for k in sizes}, choices=choices)
            yield replace(first, seed=first.seed + 900, after=(other,))
            yield replace(small, after=(first,))
            yield replace(first, after=(first,))
        if len(arguments) > 1:  # all arguments except one keep their values
            for name in arguments[:4]:
                yield replace(first, values_of={name: "negative"}, reuse=True, after=(first,))

    def special_values(self) -> Iterator[Case]:
        """Yield cases with special values, at ordinary and at larger sizes."""
        for index, kind in enumerate(KINDS):
            sizes = self.ordinary(_LARGER) if index % 3 == 2 else self.ordinary()
            if kind in _OF_EVERY_TYPE:
                for choices in self._combinations():
                    yield self._case(sizes, values=kind, choices=choices)
            else:
                yield self._case(sizes, values=kind)

    def unequal_values(self, arguments: Sequence[str]) -> Iterator[Case]:
        """Yield cases with different special values in different arguments, such as 0 and infinity.

        Args:
            arguments: Names of the arguments that are tensors.
        """
        if len(arguments) > 1:
            for name in arguments[:4]:
                yield self._case(self.ordinary(), values="infinities", values_of={name: "zeros"})
                yield self._case(self.ordinary(_LARGER), values_of={name: "nan"})

    def shared(self, pairs: Iterable[tuple[str, str]]) -> Iterator[Case]:
        """Yield cases in which two arguments are the same tensor.

        Args:
            pairs: Pairs of arguments that may be the same tensor.
        """
        for pair in list(pairs)[:6]:
            yield self._case(self.ordinary(), shared=pair)

    def gradients(
        self, arguments: Sequence[str], outputs: Sequence[str], choices: dict[str, int]
    ) -> Iterator[Case]:
        """Yield cases with different backward passes.

        In some of them, only one argument requires a gradient, or only one result is used. In
        others, another call or another backward pass precedes the backward pass.

        Args:
            arguments: Names of the arguments that require gradients.
            outputs: Names of the results that require gradients.
            choices: Choices for which these arguments require gradients.
        """
        if arguments and len(outputs) > 1:
            for name in outputs[:4]:
                yield self._case(self.ordinary(), choices=choices, only_output=name)
        if len(arguments) > 1:
            for name in arguments[:4]:
                yield self._case(self.ordinary(), choices=choices, only_grad=name)
        if arguments:
            yield self._case(self.ordinary(), choices=choices, late_grad=True)
            yield self._case(self.ordinary(), choices=choices, passes="twice")

    def views(self, arguments: Sequence[str]) -> Iterator[Case]:
        """Yield cases in which all arguments, or single ones, have unusual memory layouts.

        Args:
            arguments: Names of the arguments that are tensors.
        """
        for index, view in enumerate(VIEWS):
            sizes = self.ordinary(_LARGER) if index % 3 == 2 else self.ordinary()
            yield self._case(sizes, views={"*": view})
        if len(arguments) > 1:
            for index, name in enumerate(arguments[:5]):
                for view in (VIEWS[index % 2], "expanded", VIEWS[(index + 1) % 2]):
                    yield self._case(self.ordinary(), views={name: view})

    def blocks(self, constants: Sequence[int]) -> Iterator[Case]:
        """Yield cases with sizes near the block sizes of the launches and near multiples of them.

        Args:
            constants: Integers that kernels were compiled for.
        """
        candidates: list[dict[str, int]] = []
        blocks = sorted({constant for constant in constants if 2 <= constant <= 8192})
        wide = max((high for _, high in self._domain.sizes.values()), default=0)
        powers = [2**k for k in range(3, 13) if 2**k <= wide]
        for delta in (1, 0, -1):
            for block in blocks[-4:]:
                candidates += self._each(block + delta)
        for block in blocks[-3:]:
            candidates += [
                *self._each(2 * block + 1),
                *self._each(3 * block),
                *self._each(block // 2),
            ]
        for power in powers[::2] + powers[1::2]:
            candidates += self._each(power + 1)
        for power in powers[1::2]:
            candidates += [*self._each(power - 1), *self._each(power)]
        yield from (self._case(sizes) for sizes in _distinct(candidates)[:40])
        for values in _LAST_COUNTS:
            for block in blocks[-2:]:
                yield from (
                    self._case(sizes, values=values) for sizes in self._each(block + 1)[-2:]
                )
        for values in _TIED:
            for block in blocks[-2:]:
                yield from (
                    self._case(sizes, values=values) for sizes in self._each(2 * block + 1)[-1:]
                )

    def _each(self, value: int) -> list[dict[str, int]]:
        """Return sizes with this value: with it for one size at a time, then for all at once."""
        ranges = self._domain.sizes
        candidates = [
            {**self.ordinary(), name: value}
            for name, (low, high) in ranges.items()
            if low <= value <= high
        ]
        if len(candidates) > 1:
            candidates.append(self._all(value))
        return candidates

    def _all(self, value: int) -> dict[str, int]:
        """Return this value, clamped to the range of each size, for all sizes."""
        return {name: self._clamped(name, value) for name in self._domain.sizes}

    def mixtures(self, numbers: Iterable[int]) -> Iterator[Case]:
        """Yield cases with random sizes, random values and random views.

        Args:
            numbers: A seed for each case. Candidates must not be able to predict these seeds,
                because they could otherwise behave correctly at these sizes only.
        """
        for index, number in enumerate(numbers):
            chooser = random.Random(number)
            sizes = {}
            for name, (low, high) in self._domain.sizes.items():
                span = chooser.choice((12, 70, 300, high))
                sizes[name] = chooser.randint(low, max(low, min(high, span)))
            values = chooser.choice(list(KINDS)) if index % 3 == 0 else "drawn"
            view = {"*": chooser.choice(VIEWS)} if index % 2 else {}
            case = self._case(sizes, values=values, views=view)
            yield replace(case, seed=chooser.getrandbits(31))

    def configurations(self, constants: Sequence[Sequence[int]]) -> Iterator[Case]:
        """Yield cases for every configuration of an autotuner.

        Most of the sizes in these cases are not multiples of the block sizes of the configuration.

        Args:
            constants: For each configuration, the integer constants with which its kernels are
                compiled.
        """
        for index, own in enumerate(constants):
            if index >= _WELL_TRIED:
                yield self._case(self.ordinary(_LARGER), config=index)
                continue
            blocks = sorted({constant for constant in own if 2 <= constant <= 8192})[-2:]
            candidates = [
                self.ordinary(_LARGER),
                self.ordinary(),
                self._all(1),
                *map(self._all, blocks),
            ]
            candidates += [self._all(2 * block + 1) for block in blocks[:-1]]
            yield from (self._case(sizes, config=index) for sizes in _distinct(candidates))
            for block in blocks[-1:]:
                for values in _LAST_COUNTS:
                    yield self._case(self._all(2 * block + 1), config=index, values=values)

    def orders(self, constants: Sequence[int]) -> Iterator[Case]:
        """Yield cases whose programs do not run in the natural order.

        Args:
            constants: Integers that kernels were compiled for.
        """
        for order in (("reverse", 0), ("random", 1), ("random", 2)):
            yield self._case(self.ordinary(_LARGER), order=order)
        yield self._case(self.ordinary(_LARGER), order=("reverse", 0), values="ties")
        yield self._case(self.ordinary(_LARGER), order=("reverse", 0), values="equal")
        block = max((constant for constant in constants if constant <= 8192), default=0)
        for name, (_, high) in self._domain.sizes.items():
            if high > block >= min(_LARGER):
                sizes = {**self.ordinary(), name: self._clamped(name, 2 * block + 1)}
                yield self._case(sizes, order=("reverse", 0))


def fitted(sizes: dict[str, int], ranges: dict[str, tuple[int, int]]) -> dict[str, int]:
    """Halve sizes, the largest first, until their product is within the limit."""
    sizes = dict(sizes)
    while math.prod(max(size, 1) for size in sizes.values()) > _MOST_ELEMENTS:
        name = max(sizes, key=lambda each: sizes[each])
        smaller = max(ranges[name][0], sizes[name] // 2)
        if smaller == sizes[name]:
            break
        sizes[name] = smaller
    return sizes


def _distinct(found: Iterable[dict[str, int]]) -> list[dict[str, int]]:
    kept: dict[tuple[int, ...], dict[str, int]] = {}
    for sizes in found:
        kept.setdefault(tuple(sizes.values()), sizes)
    return list(kept.values())
