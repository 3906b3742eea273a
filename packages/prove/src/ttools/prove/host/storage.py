"""What fake tensors that share memory have in common, and formulas of what it holds."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Final

import torch

from ttools.ir.expr import (
    SIZE,
    Expr,
    Symbol,
    as_expr,
    substitute,
)
from ttools.prove.host.paths import current_path

#: Stands for the number of an element in its storage, in formulas of contents.
INDEX: Final = Symbol("index", "index", SIZE)
_numbers = itertools.count()


@dataclass(eq=False)
class Storage:
    """What tensors that share memory have in common.

    Attributes:
        dtype: of each.
        content: of element `INDEX`, if it is an integer that is known.
        value: of all elements, if they are the same float.
        random: whether elements differ as random ones do.
        number: of the storage in its run.
    """

    elements: Expr
    dtype: torch.dtype
    content: Expr | None = None
    value: float | None = None
    random: bool = False
    number: int = field(default_factory=lambda: next(_numbers))

    def forget(self) -> None:
        """Something was written: nothing is known of what it holds."""
        self.content = self.value = None
        self.random = False


def is_constant(content: Expr | None) -> bool:
    """Whether all elements are known to be the same."""
    return content is not None and INDEX not in content.base_symbols()


def is_uncut(content: Expr, elements: Expr, dtype: torch.dtype) -> bool:
    """Whether a type of integers is known to hold all values of a formula, none of them wrapped."""
    limits, ask = torch.iinfo(dtype), current_path().ask
    grows = content.linear_in(INDEX)
    if grows is not None and INDEX not in grows[0].base_symbols() | grows[1].base_symbols():
        ends = [substitute(content, {INDEX: index}) for index in (as_expr(0), elements - 1)]
        return all(ask(e - limits.min, "ge") and ask(limits.max - e, "ge") for e in ends)
    if len(content.terms) != 1:
        return False
    (((symbol, *others), factor),) = content.terms.items()
    if others or factor != 1:
        return False
    if symbol.kind == "mod":
        return ask(limits.max + 1 - symbol.args[1], "ge")
    parts = {"floordiv": symbol.args[:1], "min": symbol.args, "max": symbol.args}
    return symbol.kind in parts and all(is_uncut(p, elements, dtype) for p in parts[symbol.kind])
