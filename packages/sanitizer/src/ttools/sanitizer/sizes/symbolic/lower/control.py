"""Which operations are control flow; the evaluator knows how it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttools.interpreter.ir import Operation
from ttools.sanitizer.sizes.symbolic.operations import control

if TYPE_CHECKING:
    from ttools.sanitizer.sizes.symbolic.evaluator import Evaluator


@control("scf.for")
def _for(kernel: Evaluator, op: Operation) -> None:
    kernel.counted_loop(op)


@control("scf.while")
def _while(kernel: Evaluator, op: Operation) -> None:
    kernel.loop(op)


@control("scf.if")
def _if(kernel: Evaluator, op: Operation) -> None:
    kernel.branch(op)


@control("cf.br")
def _go(kernel: Evaluator, op: Operation) -> None:
    ((target, values),) = op.successors
    kernel.enter(target, values)


@control("cf.cond_br")
def _go_either_way(kernel: Evaluator, op: Operation) -> None:
    kernel.enter_either(op)


@control("tt.return", "ub.unreachable")
def _end(kernel: Evaluator, op: Operation) -> None:
    """Nothing comes after it."""
