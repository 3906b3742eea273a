"""A registry of rules, which are functions that evaluate operations.

A rule is registered by a decorator: `@rule("tt.reduce", "tt.scan")`.
"""

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
    """Rules by the name of the operation."""

    def __call__(self, *names: str) -> Callable[[Rule], Rule]:
        def register(rule: Rule) -> Rule:
            self.update(dict.fromkeys(names, rule))
            return rule

        return register

    def each(self, lower: Callable[..., Any], functions: Mapping[str, Callable[..., Any]]) -> None:
        """Register the rule `lower(function, ...)` for each name and its function."""
        for name, function in functions.items():
            self(name)(cast(Rule, partial(lower, function)))


def require_modelled(op: Operation) -> None:
    """Require that an operation without a rule does not change memory or control flow.

    Raises:
        NotModelledError: The operation has none of the traits that ensure this.
    """
    if not op.has(PURE, EFFECT, BARRIER, ELEMENTWISE) or (op.has(COMBINES) and not op.has(PURE)):
        raise NotModelledError(f"`{op.name}` in the kernel")
