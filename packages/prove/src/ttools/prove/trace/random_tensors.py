"""Launches of a template at given sizes, with random numbers that satisfy the assumptions."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ttools.core.errors import UsageError
from ttools.ir.expr import SIZE, Symbol, evaluate
from ttools.prove.contracts import Promise, contracts
from ttools.prove.trace.launches import TracedTensor
from ttools.prove.trace.template import Template


class NoSuchNumbersError(UsageError):
    """No numbers satisfy an assumption at the given sizes."""


class RandomTensors:
    """Makes launches with tensors of random numbers.

    Floats are between 0 and 1. Integers satisfy the assumption about their tensor; without an
    assumption, they may have any value of their type.

    Args:
        template: The template that is launched.
        promised: Assumptions about tables, by parameter.
        seed: Seed of the random numbers.
    """

    def __init__(self, template: Template, promised: Mapping[str, Promise], seed: int = 0) -> None:
        self._template = template
        self._numbers = torch.Generator().manual_seed(seed)
        symbols = {name: Symbol(name, "size", SIZE) for name in template.sizes}
        self._symbols = symbols
        self._contracts = {c.parameter: c for c in contracts(promised, symbols)}
        self._names = {tensor: name for name, tensor in template.launch.tensors.items()}

    def launch_at_ends(self, sizes: Mapping[str, int]) -> None:
        """Launch with random numbers and, if there are assumed bounds, with tables at these bounds.

        Raises:
            NoSuchNumbersError: No numbers satisfy an assumption.
        """
        self.launch(sizes)
        if self._contracts:
            self.launch(sizes, end=0)
            self.launch(sizes, end=1)

    def launch(self, sizes: Mapping[str, int], end: int | None = None) -> bool:
        """Launch at given sizes; return False if the template has no launch at these sizes.

        Args:
            sizes: The sizes, by name.
            end: If given, all elements of tables with assumed bounds equal the lower bound (0) or
                the upper bound (1), unless the elements must be distinct.

        Raises:
            NoSuchNumbersError: No numbers satisfy an assumption.
        """
        storages: dict[int, torch.Tensor] = {}

        def make(
            recorded: TracedTensor, elements: int, shape: list[int], strides: list[int]
        ) -> torch.Tensor:
            if recorded.storage not in storages:
                storages[recorded.storage] = self._content(recorded, elements, sizes, end)
            return torch.as_strided(storages[recorded.storage], shape, strides, recorded.offset)

        return self._template.make(make, sizes)

    def _content(
        self,
        recorded: TracedTensor,
        elements: int,
        sizes: Mapping[str, int],
        end: int | None = None,
    ) -> torch.Tensor:
        kind, numbers = recorded.dtype, self._numbers
        if kind.is_floating_point or kind.is_complex or kind == torch.bool:
            return torch.rand(elements, generator=numbers, device="cpu").to(kind)
        name = self._names[recorded]
        contract = self._contracts.get(name)
        info = torch.iinfo(kind)
        low, high = info.min, info.max
        words: frozenset[str] = frozenset()
        if contract is not None:
            words = contract.words
            if contract.bounds is not None:
                values = {symbol: sizes[size] for size, symbol in self._symbols.items()}
                low, high = (evaluate(bound, values) for bound in contract.bounds)
                if end is not None and low <= high and "distinct" not in words:
                    return torch.full((elements,), (low, high)[end], dtype=kind, device="cpu")
        distinct = "distinct" in words
        if high < low or (distinct and elements > high - low + 1):
            raise NoSuchNumbersError(f"no contents of `{name}` satisfy the assumption at {sizes}")
        if distinct:
            drawn = torch.randperm(high - low + 1, generator=numbers, device="cpu")[:elements] + low
        else:
            top = min(high, 1 << 62) + 1
            drawn = torch.randint(low, top, (elements,), generator=numbers, device="cpu")
        return (drawn.sort().values if "sorted" in words else drawn).to(kind)
