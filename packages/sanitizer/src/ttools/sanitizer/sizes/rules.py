"""Rules for operations, registered where they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Rule = TypeVar("Rule")


class Rules(dict[str, Rule]):
    """Rules by the names of the operations that they are for."""

    def __call__(self, *names: str) -> Callable[[Rule], Rule]:
        """Registers a rule, as a decorator or called with it."""

        def register(rule: Rule) -> Rule:
            self.update(dict.fromkeys(names, rule))
            return rule

        return register
