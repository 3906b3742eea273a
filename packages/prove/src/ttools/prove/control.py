"""Control flow of kernels, for both the evaluation at one size and the one at all sizes."""

from __future__ import annotations

from abc import ABC, abstractmethod

from ttools.ir import Operation


class ControlFlow(ABC):
    """A traversal of a kernel that follows its control flow."""

    def follow(self, op: Operation) -> bool:
        """Follow an operation if it is control flow, and return whether it is.

        The operations of control flow are loops, conditionals and the terminators of blocks.
        """
        match op.name:
            case "scf.for":
                self.counted_loop(op)
            case "scf.while":
                self.loop(op)
            case "scf.if":
                self.branch(op)
            case "cf.br":
                self.enter(op)
            case "cf.cond_br":
                self.enter_either(op)
            case "tt.return" | "ub.unreachable":
                pass
            case _:
                return False
        return True

    @abstractmethod
    def counted_loop(self, op: Operation) -> None:
        """Follow a loop with a counter."""

    @abstractmethod
    def loop(self, op: Operation) -> None:
        """Follow a loop that runs while a condition holds."""

    @abstractmethod
    def branch(self, op: Operation) -> None:
        """Follow both regions of an `scf.if`, each with the programs that take it."""

    @abstractmethod
    def enter(self, last: Operation) -> None:
        """Follow a branch to another block."""

    @abstractmethod
    def enter_either(self, last: Operation) -> None:
        """Follow a conditional branch to both blocks, each with the programs that take it."""
