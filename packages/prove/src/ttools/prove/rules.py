"""Rules for operations, registered where they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar, cast

from ttools.ir import Operation
from ttools.ir.dialects.traits import (
    BARRIER,
    COMBINES,
    EFFECT,
    ELEMENTWISE,
    PURE,
)
from ttools.prove.host.symbolic_numbers import NotModelledError

Rule = TypeVar("Rule")


class Rules(dict[str, Rule]):
    """Rules by the names of the operations that they are for."""

    def __call__(self, *names: str) -> Callable[[Rule], Rule]:
        def register(rule: Rule) -> Rule:
            self.update(dict.fromkeys(names, rule))
            return rule

        return register

    def each(self, lower: Callable[..., Any], functions: Mapping[str, Callable[..., Any]]) -> None:
        """Registers for each name what `lower` makes of an operation by its function."""
        for name, function in functions.items():
            self(name)(cast(Rule, partial(lower, function)))


def require_modelled(op: Operation) -> None:
    """Refuses what no rule is needed for unless it is known to leave memory and control alone.

    Raises:
        NotModelledError: it may do anything.
    """
    if not op.has(PURE, EFFECT, BARRIER, ELEMENTWISE) or (op.has(COMBINES) and not op.has(PURE)):
        raise NotModelledError(f"`{op.name}` of the kernel")
