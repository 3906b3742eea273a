"""Decides whether torch may finish results by reductions of what kernels have computed.

A kernel that divides a sum among several programs leaves partial results, which torch may add up.
Where torch reduces only a small part of what the reference computes, a note describes this work.
For small inputs, this share is large although the kernel is the same: four programs that divide a
sum of two terms leave four partial results. Therefore the number of partial results that occurs for
inputs with a small share is permitted for all inputs. More partial results are a failure, because a
kernel that only encodes elements could leave the whole sum to torch.
"""

from __future__ import annotations

from ttools.verifier.cases.plan import Case
from ttools.verifier.oracle.comparison import Mismatch
from ttools.verifier.run.provenance import FinishingWork, Reduction
from ttools.verifier.run.trial import Trial


class Reductions:
    """Collects the work by which torch finishes results.

    Attributes:
        largest: The work of the call in which torch finishes the most elements.
    """

    def __init__(self) -> None:
        self.largest = FinishingWork()
        #: For each part of a result: the largest number of partial results in calls where the share
        #: is small.
        self._lengths: dict[str, int] = {}
        self._large: list[tuple[Reduction, Case]] = []

    def count(self, case: Case, trial: Trial) -> None:
        """Record the reductions of a call with correct results."""
        self.largest = max(self.largest, trial.finishing, key=lambda work: work.elements)
        for reduction in trial.reductions:
            if reduction.is_small:
                length = max(reduction.length, self._lengths.get(reduction.part, 0))
                self._lengths[reduction.part] = length
            else:
                self._large.append((reduction, case))

    def failures(self) -> list[tuple[Mismatch, Case]]:
        """Return the failures of the calls in which torch reduces too many elements."""
        return [
            (reduction.problem, case)
            for reduction, case in self._large
            if reduction.length > self._lengths.get(reduction.part, 0)
        ]
