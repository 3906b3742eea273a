"""Conditions under which a launch is correct, and proofs of these conditions on a box of sizes.

There are four conditions: every access is in bounds; no integer wraps in the computation of an
address; a GPU accepts the grid; no program or lane accesses an element that a different one stores
to (see `disjoint`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ttools.core.location import SourceLocation
from ttools.ir import Module, Operation
from ttools.ir.expr import Expr, as_expr
from ttools.prove.algebra.proofs import Space
from ttools.prove.algebra.solver import Solver
from ttools.prove.grids import REFUSED, axis_operation, grid_limits
from ttools.prove.host.launches import Memory, SymbolicCall
from ttools.prove.symbolic.disjoint import Conflict, Instance, conflicts
from ttools.prove.symbolic.evaluator import Access, Evaluated, Evaluator
from ttools.prove.symbolic.tables import is_loose, order_facts
from ttools.prove.symbolic.values import Case, Fact, Need, alternatives, discharged

#: Phrase for an access whose address or mask depends on unknown contents of tensors.
DATA_DECIDE = (
    "numbers loaded from a tensor determine what is accessed; state their range with --assume"
)

Key: TypeAlias = "tuple[str, str, str]"


@dataclass(frozen=True)
class Problem:
    """A condition that is not proved.

    Attributes:
        kind: Kind of finding that the problem may turn out to be; `model` if it only prevents
            proofs.
        location: Line of the kernel; None if unknown.
        reason: Reason why the condition is not proved, as a phrase with formulas.
        phrase: The same reason without formulas.
        askable: True if the solver may be able to prove the condition.
    """

    kind: str
    kernel: str
    location: SourceLocation | None
    reason: str
    phrase: str
    askable: bool = True

    @property
    def key(self) -> Key:
        """A key that is equal for problems of the same kind, kernel and line."""
        return self.kind, self.kernel, str(self.location)

    @property
    def hides(self) -> bool:
        """True if this problem keeps other problems of the same access from being searched for."""
        return self.kind not in ("race", "overlapping_store", "view_oob", REFUSED)


def unproved(
    launch: SymbolicCall,
    module: Module,
    space: Space,
    written: frozenset[int],
    only: Key | None = None,
    skipped: frozenset[Key] = frozenset(),
    solver: Solver | None = None,
) -> list[Problem]:
    """Return the distinct problems of a launch; none if it is correct on the whole box.

    Args:
        space: The box of sizes.
        written: Numbers of the storages that the kernel writes to.
        only: Key of the problem of interest, if problems with other keys may be left out.
        skipped: Keys of known problems, which may be left out.
        solver: Z3, which is used where no other proof is found; None if it is not to be used.

    Raises:
        NotModelledError: The kernel does something that is not modelled.
    """
    evaluated = Evaluator(launch, module, space, written).run()
    problems = _Conditions(launch, module, space, evaluated, only, skipped, solver).check()
    return list({problem.key: problem for problem in problems}.values())


class _Conditions:
    def __init__(
        self,
        launch: SymbolicCall,
        module: Module,
        space: Space,
        evaluated: Evaluated,
        only: Key | None,
        skipped: frozenset[Key],
        solver: Solver | None,
    ) -> None:
        self._solver, self._asks = solver, True
        self._wrong = {place for _, _, place in skipped}
        self._launch, self._space, self._evaluated = launch, space, evaluated
        self._module = module
        self._only, self._skipped = only, skipped

    def check(self) -> list[Problem]:
        """Return the problems; those with other keys than `only` may be left out."""
        only = self._only
        unproved_conditions = list(self._grid()) if only is None or only[0] == REFUSED else []
        instances: list[Instance] = []
        meets = only is None or only[0] in ("race", "overlapping_store")
        for access in self._evaluated.accesses:
            for case in access.pointer.cases:
                if not meets and not _concerns(only, access, case):
                    continue
                for facts in alternatives(access.mask):
                    every = (*access.context, *case.when, *facts)
                    problems, instance = self._access(access, case, every)
                    unproved_conditions += problems
                    if instance is not None:
                        instances.append(instance)
        for need, context in self._evaluated.needed:
            self._asks = str(need.op.location) not in self._wrong
            usable, missing = self._discharged(context, [need])
            if missing and not self._never(usable):
                unproved_conditions += [self._missing(obligation) for obligation in missing]
        return unproved_conditions + (list(self._conflicts(instances)) if meets else [])

    def _conflicts(self, instances: Sequence[Instance]) -> Iterable[Problem]:
        programs = [p for p in self._evaluated.programs if p.terms]
        for conflict in conflicts(self._space, instances, programs, self._is_asked, self._solver):
            both = (conflict.first, conflict.second)
            if not any(self._never(instance.facts) for instance in both):
                yield self._conflict(conflict)

    def _is_asked(self, kind: str, access: Access) -> bool:
        key = kind, self._launch.kernel, str(access.op.location)
        return key not in self._skipped and self._only in (None, key)

    def _problem(
        self,
        kind: str,
        op: Operation,
        reason: str,
        phrase: str,
        *,
        askable: bool = True,
        is_loose: bool = False,
    ) -> Problem:
        """Return a problem; if it depends on loaded data, its phrase is `DATA_DECIDE`."""
        return Problem(
            kind,
            self._launch.kernel,
            op.location,
            reason,
            DATA_DECIDE if is_loose else phrase,
            askable and not is_loose,
        )

    def _grid(self) -> Iterable[Problem]:
        for axis, (extent, limit) in enumerate(zip(self._launch.grid, grid_limits(), strict=True)):
            if not self._space.nonneg(limit - extent):
                reason = (
                    f"the grid may have more than {limit:,} programs along axis {axis}, which "
                    "cannot be launched"
                )
                op = axis_operation(self._module, axis)
                phrase = "the grid may have more programs than a GPU can launch"
                yield self._problem(REFUSED, op, reason, phrase, askable=False)

    def _access(
        self, access: Access, case: Case, facts: Sequence[Fact]
    ) -> tuple[list[Problem], Instance | None]:
        ops = {access.op} | {need.op for need in case.needs}
        # The solver is not queried about conditions that are known to be violated.
        self._asks = not any(str(op.location) in self._wrong for op in ops)
        usable, missing = self._discharged(facts, case.needs)
        if missing:
            return self._unless_never(usable, *map(self._missing, missing)), None
        if case.base is None or case.base < 0:
            reason = "the address is not known to be derived from one argument"
            problem = self._problem("model", access.op, reason, reason, askable=False)
            return self._unless_never(usable, problem), None
        memory = self._launch.arguments[case.base]
        if not isinstance(memory, Memory):
            reason = "the address is not derived from a tensor"
            problem = self._problem("model", access.op, reason, reason, askable=False)
            return self._unless_never(usable, problem), None
        at = memory.offset + case.value
        usable += order_facts(self._space, usable, [at])
        loose = is_loose(self._space, at, usable)
        self._asks = self._asks and not loose
        nonneg = self._nonneg
        problems = []
        if not (nonneg(at, usable) and nonneg(memory.elements - 1 - at, usable)):
            name = self._launch.names[case.base]
            problems.append(
                self._problem(
                    f"oob_{access.kind}",
                    access.op,
                    f"element {case.value} of `{name}` is not shown to be one of its "
                    f"{memory.elements} elements",
                    f"not all accesses are shown to stay inside `{name}`",
                    is_loose=loose,
                )
            )
        elif not self._in_view(memory, case.value, usable):
            name = self._launch.names[case.base]
            reason = f"element {case.value} is not shown to be in the view `{name}`"
            phrase = f"not all accesses are shown to stay in the elements passed as `{name}`"
            problems.append(self._problem("view_oob", access.op, reason, phrase, is_loose=loose))
        left = self._unless_never(usable, *problems)
        if problems and not left:
            return [], None
        return left, Instance(access, memory, at, tuple(usable))

    def _unless_never(self, facts: Sequence[Expr], *problems: Problem) -> list[Problem]:
        """Return the problems, or none if it is proved that the access is never reached.

        That proof takes a long time, so it is attempted only if there are problems.
        """
        return list(problems) if problems and not self._never(facts) else []

    def _missing(self, need: Need) -> Problem:
        reason = f"{need.expr} is not shown to be between {need.low:,} and {need.high:,}"
        is_loose = any(symbol.kind == "data" for symbol in need.expr.base_symbols())
        phrase = (
            DATA_DECIDE if is_loose else "an integer is not shown to stay in the range of its type"
        )
        is_overflow = need.kind == "wrap" and need.high < 2**62
        return self._problem("int_overflow" if is_overflow else "model", need.op, reason, phrase)

    def _discharged(
        self, facts: Iterable[Fact], needs: Iterable[Need]
    ) -> tuple[list[Expr], list[Need]]:
        """Return the facts that may be used, and the obligations that are not proved."""
        return discharged(facts, needs, self._nonneg)

    def _nonneg(self, goal: Expr, facts: Sequence[Expr]) -> bool:
        """Return whether the goal is proved; the solver is tried only if other proofs fail."""
        if self._space.nonneg(goal, facts):
            return True
        solver = self._solver if self._asks else None
        return solver is not None and solver.shows(self._space, goal, facts)

    def _never(self, facts: Sequence[Expr]) -> bool:
        """Return whether the facts contradict each other, so that the access never happens."""
        for n, fact in enumerate(facts):
            high = self._space.range(fact)[1]
            if high is not None and high < 0:
                return True
            if len(facts) <= 12 and self._space.nonneg(-1 - fact, [*facts[:n], *facts[n + 1 :]]):
                return True
        return False

    def _in_view(self, memory: Memory, at: Expr, facts: Sequence[Expr]) -> bool:
        """Return whether it is proved that an element belongs to a view.

        Args:
            at: Index of the element in the storage, counted from the first element of the view.
            facts: Expressions that are at least 0.
        """
        dims = [
            (stride, extent)
            for stride, extent in zip(memory.strides, memory.shape, strict=True)
            if extent.constant != 1 and stride.constant != 0
        ]
        dims.sort(key=lambda d: self._space.range(d[0])[1] or 0, reverse=True)
        span = as_expr(1)
        for stride, extent in dims:
            span = span + stride * (extent - 1)
        if memory.elements == span and memory.offset.constant == 0 and self._dense(dims):
            return True  # the view is all of the memory, which is empty if a size is 0
        if any(self._space.range(stride)[0] in (None, 0) for stride, _ in dims):
            return False
        return self._member(at, dims, list(facts))

    def _dense(self, dims: Sequence[tuple[Expr, Expr]]) -> bool:
        expected = as_expr(1)
        for stride, extent in reversed(dims):
            if stride != expected:
                return False
            expected = expected * extent
        return True

    def _covered(self, dims: Sequence[tuple[Expr, Expr]], facts: list[Expr]) -> Expr | None:
        """Return the length of a view without gaps; None if the view may have gaps.

        Axes may overlap, as sliding windows do. The length is 0 if an extent is 0.
        """
        if self._dense(dims):
            total = as_expr(1)
            for _, extent in dims:
                total = total * extent
            return total
        span = as_expr(1)
        for stride, extent in reversed(dims):
            if not (self._nonneg(span - stride, facts) and self._nonneg(extent - 1, facts)):
                return None
            span = span + stride * (extent - 1)
        return span

    def _member(self, at: Expr, dims: Sequence[tuple[Expr, Expr]], facts: list[Expr]) -> bool:
        nonneg = self._nonneg
        if not dims:
            return nonneg(at, facts) and nonneg(-at, facts)
        span = self._covered(dims, facts)
        if span is not None:
            return nonneg(at, facts) and nonneg(span - 1 - at, facts)
        stride, extent = dims[0]
        high, low = at.divided(stride)
        inside = nonneg(high, facts) and nonneg(extent - 1 - high, facts)
        return inside and self._member(low, dims[1:], facts)

    def _conflict(self, conflict: Conflict) -> Problem:
        one, other = conflict.first.access, conflict.second.access
        reason = (
            f"two programs are not shown to access different elements (other access: {other.kind})"
        )
        if conflict.in_program:
            reason = "the lanes of this store are not shown to write different elements"
        loose = any(is_loose(self._space, i.at, i.facts) for i in (conflict.first, conflict.second))
        return self._problem(conflict.kind, one.op, reason, reason, is_loose=loose)


def _concerns(only: Key | None, access: Access, case: Case) -> bool:
    """Return whether the problem with the key `only` may be a problem of this access."""
    if only is None:
        return True
    ops = {access.op} | {need.op for need in case.needs}
    return only[2] in {str(op.location) for op in ops}
