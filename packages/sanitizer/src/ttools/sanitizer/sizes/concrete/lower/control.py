"""Which operations are control flow; the run knows how it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttools.interpreter.ir import Operation
from ttools.sanitizer.sizes.concrete.operations import control

if TYPE_CHECKING:
    from ttools.sanitizer.sizes.concrete.run import ConcreteRun


@control("scf.for")
def _for(run: ConcreteRun, op: Operation) -> None:
    run.counted_loop(op)


@control("scf.while")
def _while(run: ConcreteRun, op: Operation) -> None:
    run.loop(op)


@control("scf.if")
def _if(run: ConcreteRun, op: Operation) -> None:
    run.branch(op)


@control("cf.br")
def _go(run: ConcreteRun, op: Operation) -> None:
    run.enter(op)


@control("cf.cond_br")
def _go_either_way(run: ConcreteRun, op: Operation) -> None:
    run.enter_either(op)


@control("tt.return", "ub.unreachable")
def _end(run: ConcreteRun, op: Operation) -> None:
    """Nothing comes after it."""
