"""Causes: the place in the source that has to be corrected, which several findings may share."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ttools.core.location import SourceLocation, source_lines
from ttools.core.syntax_trees import functions_around, syntax_tree

#: `mask`: a mask that admits out-of-bounds lanes; `index`: an index that no mask restricts;
#: `barrier`: a missing barrier; `update`: a load, a change and a store instead of an atomic
#: operation.
CauseKind = Literal["mask", "index", "barrier", "update"]
_LONGEST = 60
#: Maximum number of runs of lanes to list.
_MOST_RUNS = 3


@dataclass(frozen=True, kw_only=True)
class Cause:
    """The cause of a finding.

    Attributes:
        kind: What is wrong: the mask, the index, a missing barrier, or an update without an atomic
            operation.
        kernel: Name of the kernel.
        name: The variable that holds the mask or the index, or the parameter whose elements are
            updated; empty if there is none.
        source: Text of the variable's definition, such as `m = offs < D`.
        location: Position of the definition, of the statement before which a barrier is missing, or
            of the store of an update.
        lanes: Runs of out-of-bounds lanes that the mask admits, as pairs of first and last lane.
        program: The program that these lanes belong to; None if the lanes are the same in all
            programs.
    """

    kind: CauseKind
    kernel: str
    name: str = ""
    source: str = ""
    location: SourceLocation | None = None
    lanes: tuple[tuple[int, int], ...] = ()
    program: tuple[int, int, int] | None = None

    @property
    def id(self) -> str:
        """Return an identifier that all findings with this cause have in common."""
        chain = () if self.location is None else (self.location, *self.location.callers)
        return " < ".join([f"{self.kernel}: {self.kind}", *map(str, chain)])

    @property
    def phrase(self) -> str:
        """Return, e.g., "`m` (line 12)", or the expression if no variable holds the value.

        A mask that Triton derives from the shape of a descriptor or block pointer has no text.
        """
        line = f" (line {self.location.line})" if self.location is not None else ""
        text = self.name or self.source
        return f"`{text}`{line}" if text else f"the bounds check{line}"

    @property
    def is_loop(self) -> bool:
        """Return whether the cause is an index that is the counter of a loop."""
        return self.kind == "index" and self.source.startswith("for ")

    @property
    def loop_help(self) -> str:
        """Return advice to end the loop earlier; empty if the cause is not a loop."""
        if not self.is_loop:
            return ""
        line = f" (line {self.location.line})" if self.location is not None else ""
        return f"let `{self.source}`{line} end before `{self.name}` leaves the tensor"

    @property
    def is_one_lane(self) -> bool:
        return len(self.lanes) == 1 and self.lanes[0][0] == self.lanes[0][1]

    @property
    def lanes_text(self) -> str:
        """Return, e.g., `lanes 40-63`, or `lanes 4-11 of program (3, 0, 0)`; empty if unknown."""
        if not self.lanes:
            return ""
        runs = [f"{a}-{b}" if a < b else str(a) for a, b in self.lanes[:_MOST_RUNS]]
        runs += ["…"] if len(self.lanes) > _MOST_RUNS else []
        where = f" of program {self.program}" if self.program is not None else ""
        return f"{'lane' if self.is_one_lane else 'lanes'} {', '.join(runs)}{where}"


def definition_text(location: SourceLocation, name: str = "") -> str:
    """Return the source of a value: its assignment or loop if it has a name, else the expression.

    Args:
        location: Position of the operation that computes the value.

    Returns:
        The text in one line, shortened if it is long; the name if the source cannot be read.
    """
    source = "".join(source_lines(location.file))
    tree = syntax_tree(source)
    nodes = [] if tree is None else list(_around(tree, location))
    chosen: ast.AST | None = None
    if name:
        loops = [node for node in nodes if isinstance(node, ast.For)]
        for loop in loops:
            if loop.lineno == location.line and ast.unparse(loop.target) == name:
                return _shortened(f"for {name} in {ast.unparse(loop.iter)}")
        chosen = next((node for node in nodes if isinstance(node, _ASSIGNMENTS)), None)
    if chosen is None:
        # Triton reports the location of a comparison as either its beginning or its operator.
        column = location.column - 1
        computed = [n for n in nodes if isinstance(n, (ast.Compare, ast.BoolOp, ast.BinOp))]
        starting = [n for n in computed if (n.lineno, n.col_offset) == (location.line, column)]
        compared = [n for n in starting if isinstance(n, ast.Compare)]
        chosen = next(iter(compared or starting[::-1] or computed[::-1]), None)
    text = ast.get_source_segment(source, chosen) if chosen is not None else None
    return _shortened(" ".join((text or name).split()))


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 2]} …"


_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)


def _around(tree: ast.AST, location: SourceLocation) -> Iterator[ast.stmt | ast.expr]:
    """Yield the statements and expressions that contain a position, outer ones first."""
    position = location.line, location.column - 1
    for node in ast.walk(tree):
        if isinstance(node, (ast.stmt, ast.expr)):
            end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
            if (node.lineno, node.col_offset) <= position < end:
                yield node


def assignment_before(location: SourceLocation, name: str) -> SourceLocation | None:
    """Return the position of the last assignment to a variable above a position, or None."""
    functions = functions_around("".join(source_lines(location.file)), location.line)
    assignments = [
        node
        for node in ast.walk(functions[-1] if functions else ast.Module([], []))
        if isinstance(node, ast.Assign) and node.lineno < location.line
        if any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    ]
    if not assignments:
        return None
    last = max(assignments, key=lambda node: node.lineno)
    column = last.value.col_offset + 1
    return SourceLocation(location.file, last.lineno, column, name, location.callers)
