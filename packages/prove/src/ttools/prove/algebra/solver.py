"""Proofs by Z3, which are attempted if those of `algebra.proofs` have failed.

Z3 decides whether a goal can be false while the given facts are true. Z3's integers never wrap, and
neither do the integers in expressions. A quotient is translated to a new integer with the
constraints that define it. Facts that cannot be translated are omitted, which can make a proof fail
but never makes it wrong.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterable, Sequence
from typing import Any

from ttools.ir.expr import SIZE, Expr, Symbol, evaluate
from ttools.prove.algebra.proofs import Element, Space

#: Memory limit of Z3 in MiB.
_MEMORY = 1024
_SHORT = ("simplify", "propagate-values", "solve-eqs", "smt")


def is_installed() -> bool:
    """Return whether Z3 is installed."""
    return importlib.util.find_spec("z3") is not None


class Solver:
    """Queries Z3 with a limit on the total time.

    Args:
        seconds: Time limit of all queries together.
        each: Time limit of one query.

    Attributes:
        shown: Number of proofs found.
        witnesses: Sizes at which a goal may fail, taken from the models that Z3 has found.
    """

    def __init__(self, seconds: float, each: float) -> None:
        self._left, self._each = seconds, each
        self._known: dict[object, bool] = {}
        self.shown = 0
        self.witnesses: list[dict[Symbol, int]] = []

    def shows(self, space: Space, goal: Expr, facts: Iterable[Expr]) -> bool:
        """Return whether it is proved that `goal >= 0` follows if all facts are at least 0."""
        return self.refutes(space, [*facts, -1 - goal])

    def refutes(
        self, space: Space, facts: Iterable[Expr], differ: Sequence[tuple[Expr, Expr]] = ()
    ) -> bool:
        """Return whether it is proved that no values of the symbols satisfy all facts.

        Args:
            space: The sizes and symbols.
            facts: Expressions that are at least 0.
            differ: Pairs of expressions. If there are any, the query also assumes that the two
                expressions of at least one pair differ.
        """
        premises = tuple(dict.fromkeys(facts))
        key = space, premises, tuple(differ)
        if key not in self._known:
            answer = self._known[key] = self._ask(space, premises, differ)
            self.shown += answer
        return self._known[key]

    def _ask(
        self, space: Space, facts: Iterable[Expr], differ: Sequence[tuple[Expr, Expr]]
    ) -> bool:
        start = time.thread_time()
        seconds = min(self._each, self._left, space.limit.left)
        if seconds <= 0:
            return False
        import z3  # slow to import, and an optional dependency

        try:
            question = _Question(z3, space)
            said = question.asked([*facts, *space.assumed], differ)
            # With tactics that substitute the definitions of quotients first, Z3 answers most
            # queries in 1% of the time. The remaining queries use its default tactics.
            for solver in (z3.Then(*_SHORT).solver(), z3.SolverFor("QF_NIA")):
                solver.set("timeout", max(1, int(500 * seconds)), "max_memory", _MEMORY)
                solver.add(*said)
                answer = solver.check()
                if answer == z3.sat:
                    self.witnesses.append(question.sizes(solver.model()))
                if answer != z3.unknown:
                    return bool(answer == z3.unsat)
            return False
        except z3.Z3Exception:  # for example too little memory
            return False
        finally:
            self._left -= time.thread_time() - start


class _Question:
    def __init__(self, z3: Any, space: Space) -> None:
        self._z3, self._space = z3, space
        self._variables: dict[Symbol, Any] = {}
        self._quotients: dict[tuple[Expr, Expr], Any] = {}
        self._said: list[Any] = []
        self._pending: list[Symbol] = []

    def asked(self, facts: Sequence[Expr], differ: Sequence[tuple[Expr, Expr]]) -> list[Any]:
        """Return the constraints that a counterexample has to satisfy."""
        said = [self._term(fact) >= 0 for fact in facts]
        if differ:
            said.append(self._z3.Or(*(self._term(p) != self._term(q) for p, q in differ)))
        while self._pending:
            symbol = self._pending.pop()
            self._said += [self._term(fact) >= 0 for fact in self._space.facts_of(symbol)]
            element = self._space.elements.get(symbol)
            if element is not None:
                self._tables(symbol, element)
        return said + self._said

    def sizes(self, model: Any) -> dict[Symbol, int]:
        return {
            symbol: model.eval(variable, model_completion=True).as_long()
            for symbol, variable in self._variables.items()
            if symbol.level == SIZE
        }

    def __getitem__(self, symbol: Symbol) -> Any:
        return self._variable(symbol)

    def _term(self, expr: Expr) -> Any:
        return self._z3.IntVal(0) + evaluate(expr, self, None)

    def _variable(self, symbol: Symbol) -> Any:
        variable = self._variables.get(symbol)
        if variable is None:
            variable = self._variables[symbol] = self._z3.Int(f"{symbol.kind}{symbol.order}")
            self._pending.append(symbol)
            if symbol.args:
                self._define(symbol, variable)
        return variable

    def _define(self, symbol: Symbol, value: Any) -> None:
        """Add the constraints, other than facts, that define an atom; `power_of_2` has none."""
        if symbol.kind in ("min", "max"):
            one, other = map(self._term, symbol.args)
            self._said.append(self._z3.Or(value == one, value == other))
        elif symbol.kind in ("floordiv", "mod"):
            p, d = symbol.args
            dividend, divisor = self._term(p), self._term(d)
            quotient = self._quotients.get((p, d))
            if quotient is None:
                quotient = self._quotients[p, d] = self._z3.Int(f"quotient{symbol.order}")
                rest = dividend - divisor * quotient
                self._said += [rest >= 0, rest < divisor]
            rest = dividend - divisor * quotient
            self._said.append(value == (quotient if symbol.kind == "floordiv" else rest))

    def _tables(self, symbol: Symbol, element: Element) -> None:
        """Add the constraints between an element of a table and the other elements of the table."""
        z3, value, position = self._z3, self._variable(symbol), self._term(element.position)
        for other, candidate in self._space.elements.items():
            if other not in self._variables or other is symbol or candidate.table != element.table:
                continue
            theirs, place = self._variables[other], self._term(candidate.position)
            self._said.append(z3.Implies(position == place, value == theirs))
            if element.ascending:
                self._said.append(z3.Implies(position <= place, value <= theirs))
                self._said.append(z3.Implies(position >= place, value >= theirs))
            if element.distinct and element.ends is not None:
                low, high = map(self._term, element.ends)
                inside = z3.And(*(z3.And(low <= p, p <= high) for p in (position, place)))
                self._said.append(z3.Implies(z3.And(inside, value == theirs), position == place))
