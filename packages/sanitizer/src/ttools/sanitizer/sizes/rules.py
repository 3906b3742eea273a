"""Rules for operations, registered where they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ttools.interpreter.dialects.traits import (
    BARRIER,
    COMBINES,
    EFFECT,
    ELEMENTWISE,
    PURE,
)
from ttools.interpreter.ir import Operation
from ttools.sanitizer.sizes.host.paths import NotModelledError

Rule = TypeVar("Rule")


class Rules(dict[str, Rule]):
    """Rules by the names of the operations that they are for."""

    def __call__(self, *names: str) -> Callable[[Rule], Rule]:
        """Registers a rule, as a decorator."""

        def register(rule: Rule) -> Rule:
            self.update(dict.fromkeys(names, rule))
            return rule

        return register


def require_modelled(op: Operation) -> None:
    """Refuses what no rule is needed for unless it is known to leave memory and control alone.

    Raises:
        NotModelledError: it may do anything.
    """
    if not op.has(PURE, EFFECT, BARRIER, ELEMENTWISE) or (op.has(COMBINES) and not op.has(PURE)):
        raise NotModelledError(f"`{op.name}` of the kernel")
