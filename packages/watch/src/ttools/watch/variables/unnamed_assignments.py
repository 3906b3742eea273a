"""Search for assignments without named operations: aliases, and the targets of `a, b = …`.

Triton names the operations of a statement after its target if there is only one target. The names
that `b = a` and `a, b = f(x)` assign therefore do not occur in the compiled kernel. This module
looks up the assigned expression in the source. It then finds the value by the location of the
expression's operations, or through different variables that have names. A value is unavailable if
it depends on branches, or if several values have the same location.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ttools.core.location import SourceLocation, chain_of
from ttools.core.ownership import is_triton_file
from ttools.ir import Module, Operation
from ttools.ir.dialects.traits import CONSTANT, COUNTED
from ttools.watch.variables.source_names import (
    Binding,
    Carried,
    Function,
    SourceNames,
    lines_of,
    names_of_file,
)
from ttools.watch.variables.unrolled_loops import all_blocks, is_unrolled
from ttools.watch.variables.variables import (
    NamedAssignments,
    Variable,
    find_named,
    is_plain,
    variable_of,
)

_Calls = tuple[tuple[str, int, int], ...]
_DEEPEST = 16


@dataclass(frozen=True)
class Unavailable:
    """An assignment whose value is unavailable.

    Attributes:
        why: The reason, as it is shown to users.
    """

    name: str
    file: str
    lines: range
    why: str


@dataclass(frozen=True)
class ModuleVariables:
    """The variables of a module.

    Attributes:
        variables: Assignments whose values are available.
        unavailable: Assignments whose values are not available.
    """

    variables: list[Variable]
    unavailable: list[Unavailable]


@dataclass(frozen=True, eq=False)
class _Instance:
    """A function with the chain of calls through which it was inlined."""

    file: str
    function: Function
    callers: tuple[SourceLocation, ...]

    @property
    def calls(self) -> _Calls:
        return tuple((location.file, location.line, location.column) for location in self.callers)


@dataclass(frozen=True)
class _At:
    """One level of an operation's location: its own line, or the line of a call that led to it."""

    operation: Operation
    location: SourceLocation
    inner: SourceLocation | None


def find_variables(module: Module, parameters: Sequence[str]) -> ModuleVariables:
    """Find all assignments of a module's kernel and of the functions it calls.

    Args:
        module: The module, whose calls need not have been inlined.
        parameters: Names of the kernel's parameters.
    """
    return _Search(module, find_named(module, parameters)).run()


class _Search:
    def __init__(self, module: Module, named: NamedAssignments) -> None:
        self._named = named
        self._by_last = module.first_column == 0
        self._variables: defaultdict[tuple[str, str, _Calls], list[Variable]] = defaultdict(list)
        for variable in named.variables:
            location = variable.location
            self._variables[location.file, variable.name, _calls(location)].append(variable)
        self._at: defaultdict[tuple[str, _Calls], list[_At]] = defaultdict(list)
        self._instances: dict[tuple[str, int, _Calls], _Instance] = {}
        self._known_lines: dict[tuple[str, int, _Calls], _Instance | None] = {}
        kernel = module.kernel.location
        if kernel is not None:
            self._instance(kernel)
        for block in all_blocks(module):
            for op in block.operations:
                if op.location is not None:
                    self._index(op, chain_of(op.location))

    def _index(self, op: Operation, chain: Sequence[SourceLocation]) -> None:
        for level, location in enumerate(chain):
            if location.line and not is_triton_file(location.file):
                inner = chain[level - 1] if level else None
                self._at[location.file, _calls(location)].append(_At(op, location, inner))
                self._instance(location)

    def _instance(self, location: SourceLocation) -> _Instance | None:
        line = location.file, location.line, _calls(location)
        if line not in self._known_lines:
            function = self._names(location.file).function_at(location.line)
            instance = None
            if function is not None:
                instance = _Instance(location.file, function, location.callers)
                key = location.file, function.tree.lineno, instance.calls
                instance = self._instances.setdefault(key, instance)
            self._known_lines[line] = instance
        return self._known_lines[line]

    def _names(self, file: str) -> SourceNames:
        return names_of_file(file, self._by_last)

    def _begins(self, source: ast.expr, location: SourceLocation) -> bool:
        return (location.line, location.column) == self._names(location.file).position_of(source)

    def run(self) -> ModuleVariables:
        """Search for the assignments of every name of every function."""
        variables, unavailable = list(self._named.variables), []
        for instance in list(self._instances.values()):
            for binding in instance.function.bindings:
                if self._known(instance, binding):
                    continue
                values = [
                    replace(v, name=binding.name, location=_location_of(instance, binding))
                    for v in self._of_source(instance, binding, 0)
                ]
                variables += [replace(v, is_parameter=False) for v in values]
                if not values:
                    unavailable.append(_unavailable(instance, binding))
        for variable in self._named.doubtful:
            file, line = variable.location.file, variable.location.line
            why = "unrolled loop: only the last iteration is recorded"
            unavailable.append(Unavailable(variable.name, file, range(line, line + 1), why))
        return ModuleVariables(variables, list(dict.fromkeys(unavailable)))

    # ---- sources of values

    def _known(self, instance: _Instance, binding: Binding) -> list[Variable]:
        named = self._variables.get((instance.file, binding.name, instance.calls), [])
        return [v for v in named if v.location.line in binding.lines and not v.is_parameter]

    def _values_of(self, instance: _Instance, binding: Binding, depth: int) -> list[Variable]:
        """Return the values that a statement assigned to a name."""
        return self._known(instance, binding) or self._of_source(instance, binding, depth)

    def _of_source(self, instance: _Instance, binding: Binding, depth: int) -> list[Variable]:
        if binding.source is None:
            return []
        return self._of(instance, binding.statement, binding.source, binding.item, depth)

    def _of(
        self,
        instance: _Instance,
        statement: ast.stmt,
        source: ast.expr,
        item: tuple[int, int] | None,
        depth: int,
    ) -> list[Variable]:
        """Return the values of an expression, or the values of one of its items."""
        if depth > _DEEPEST:
            return []
        if isinstance(source, (ast.Tuple, ast.List)) and item is not None:
            if len(source.elts) != item[1]:
                return []
            return self._of(instance, statement, source.elts[item[0]], None, depth + 1)
        if isinstance(source, ast.Name):
            return self._of_name(instance, statement, source.id, item, depth + 1)
        if isinstance(source, ast.Call):
            called = self._called(instance, source)
            if called is not None:
                exit = called.function.returned()
                if exit is None or exit.value is None:
                    return []
                return self._of(called, exit, exit.value, item, depth + 1)
        return self._roots(instance, source, item)

    def _of_name(
        self,
        instance: _Instance,
        statement: ast.stmt,
        name: str,
        item: tuple[int, int] | None,
        depth: int,
    ) -> list[Variable]:
        origin = instance.function.reaching(statement, name)
        if isinstance(origin, Binding):
            if item is None:
                return self._values_of(instance, origin, depth)
            if origin.source is None or origin.item is not None:
                return []
            return self._of(instance, origin.statement, origin.source, item, depth)
        if item is not None or origin is None:
            return []
        if isinstance(origin, Carried):
            return self._carried(instance, origin)
        named = self._variables.get((instance.file, name, instance.calls), [])
        return [v for v in named if v.is_parameter]

    def _carried(self, instance: _Instance, carried: Carried) -> list[Variable]:
        """Return the value that a name has at the start of an iteration of a loop."""
        named = self._variables.get((instance.file, carried.name, instance.calls), [])
        body = range(carried.loop.body[0].lineno, (carried.loop.end_lineno or 0) + 1)
        variables = []
        for variable in named:
            loop = variable.block.parent_op
            if loop is None or not loop.has(COUNTED) or variable.location.line not in body:
                continue
            yielded = [n for user, n in variable.value.uses if user.name == "scf.yield"]
            if len(yielded) == 1:
                value = variable.block.arguments[1 + yielded[0]]
                variables.append(
                    Variable(variable.name, variable.location, value, variable.block, None)
                )
        return variables if len(variables) == 1 else []

    def _called(self, instance: _Instance, call: ast.Call) -> _Instance | None:
        """Return the user's function that a call executes; None if it is unknown."""
        inner = {
            id(instance_called): instance_called
            for at in self._at.get((instance.file, instance.calls), [])
            if self._begins(call, at.location)
            and at.inner is not None
            and not is_triton_file(at.inner.file)
            and (instance_called := self._instance(at.inner)) is not None
        }
        return next(iter(inner.values())) if len(inner) == 1 else None

    def _roots(
        self, instance: _Instance, source: ast.expr, item: tuple[int, int] | None
    ) -> list[Variable]:
        """Return the results of the outermost operation of an expression."""
        operator: str | None = None
        source_names = self._names(instance.file)
        if isinstance(source, ast.BinOp):
            operator = type(source.op).__name__
            if not source_names.is_single(*source_names.position_of(source)):
                return []
        elif not isinstance(source, ast.Call):
            return []
        inside = [
            at
            for at in self._at.get((instance.file, instance.calls), [])
            if source_names.is_within(source, at.location.line, at.location.column)
        ]
        operations = {at.operation for at in inside}
        roots = [
            at.operation
            for at in inside
            if self._begins(source, at.location)
            and at.operation.results
            and not at.operation.has(CONSTANT)
            and operator in (None, at.operation.declaration.python)
            and not any(u in operations for r in at.operation.results for u, _ in r.uses)
        ]
        index, several = item or (0, 1)
        if not roots or any(len(op.results) != several for op in roots):
            return []
        if len(roots) > 1 and not self._is_repeated(roots, inside):
            return []
        values = [op.results[index] for op in roots]
        if not all(map(is_plain, values)):
            return []
        location = SourceLocation(instance.file, source.lineno, 0, None, instance.callers)
        blocks = [(value, op.parent) for value, op in zip(values, roots, strict=True)]
        return [variable_of("", location, v, block) for v, block in blocks if block is not None]

    def _is_repeated(self, roots: Sequence[Operation], inside: Sequence[_At]) -> bool:
        """Return whether operations come from one expression in an unrolled loop."""
        (locations, *others) = [op.location for op in roots]
        alike = all(op.name == roots[0].name for op in roots) and set(others) <= {locations}
        levels = [at.location for at in inside if at.operation is roots[0]]
        return alike and all(is_unrolled(chain_of(location)) for location in levels)


# ---- locations


def _calls(location: SourceLocation) -> _Calls:
    return tuple((caller.file, caller.line, caller.column) for caller in location.callers)


def _location_of(instance: _Instance, binding: Binding) -> SourceLocation:
    value = getattr(binding.statement, "value", None)  # Triton uses the line of the expression
    line = (value or binding.statement).lineno
    return SourceLocation(instance.file, line, 0, None, instance.callers)


def _unavailable(instance: _Instance, binding: Binding) -> Unavailable:
    why = "the compiled kernel has no separate value for it"
    return Unavailable(binding.name, instance.file, lines_of(binding.statement), why)
