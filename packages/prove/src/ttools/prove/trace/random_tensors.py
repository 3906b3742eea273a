"""A script's launch made at other sizes, with tensors of random numbers that are as promised."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ttools.core.errors import UsageError
from ttools.ir.expr import SIZE, Symbol, evaluate
from ttools.prove.contracts import Promise, contracts
from ttools.prove.trace.launches import TracedTensor
from ttools.prove.trace.template import Template


class NoSuchNumbersError(UsageError):
    """There are no numbers as they are promised at these sizes."""


class RandomTensors:
    """Makes launches with tensors of random numbers.

    Floats are from 0 to 1; integers are what is promised of their tensor, or anything that their
    type holds.

    Args:
        general: the launch for all sizes.
        promised: what tables hold, by parameter.
        seed: of the numbers.
    """

    def __init__(self, general: Template, promised: Mapping[str, Promise], seed: int = 0) -> None:
        self._general = general
        self._numbers = torch.Generator().manual_seed(seed)
        symbols = {name: Symbol(name, "size", SIZE) for name in general.sizes}
        self._symbols = symbols
        self._contracts = {c.parameter: c for c in contracts(promised, symbols)}
        self._names = {seen: name for name, seen in general.launch.tensors.items()}

    def launch_at_ends(self, sizes: Mapping[str, int]) -> None:
        """Makes the launch with random numbers, and with all tables at either promised end.

        Raises:
            NoSuchNumbersError: nothing can be as promised.
        """
        self.launch(sizes)
        if self._contracts:
            self.launch(sizes, end=0)
            self.launch(sizes, end=1)

    def launch(self, sizes: Mapping[str, int], end: int | None = None) -> bool:
        """Makes the launch at sizes; whether there is one.

        Args:
            sizes: by name.
            end: tables hold nothing but what they hold at least (0) or at most (1), if this is
                promised and they may hold a number twice.

        Raises:
            NoSuchNumbersError: nothing can be as promised.
        """
        storages: dict[int, torch.Tensor] = {}

        def make(
            seen: TracedTensor, elements: int, shape: list[int], strides: list[int]
        ) -> torch.Tensor:
            if seen.storage not in storages:
                storages[seen.storage] = self._content(seen, elements, sizes, end)
            return torch.as_strided(storages[seen.storage], shape, strides, seen.offset)

        return self._general.make(make, sizes)

    def _content(
        self, seen: TracedTensor, elements: int, sizes: Mapping[str, int], end: int | None = None
    ) -> torch.Tensor:
        kind, numbers = seen.dtype, self._numbers
        if kind.is_floating_point or kind.is_complex or kind == torch.bool:
            return torch.rand(elements, generator=numbers, device="cpu").to(kind)
        name = self._names[seen]
        contract = self._contracts.get(name)
        info = torch.iinfo(kind)
        low, high = info.min, info.max
        words: frozenset[str] = frozenset()
        if contract is not None:
            words = contract.words
            if contract.bounds is not None:
                values = {symbol: sizes[each] for each, symbol in self._symbols.items()}
                low, high = (evaluate(bound, values) for bound in contract.bounds)
                if end is not None and low <= high and "distinct" not in words:
                    return torch.full((elements,), (low, high)[end], dtype=kind, device="cpu")
        distinct = "distinct" in words
        if high < low or (distinct and elements > high - low + 1):
            raise NoSuchNumbersError(f"nothing that `{name}` may hold is as promised at {sizes}")
        if distinct:
            drawn = torch.randperm(high - low + 1, generator=numbers, device="cpu")[:elements] + low
        else:
            top = min(high, 1 << 62) + 1
            drawn = torch.randint(low, top, (elements,), generator=numbers, device="cpu")
        return (drawn.sort().values if "sorted" in words else drawn).to(kind)
