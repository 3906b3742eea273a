"""Makes choices that no candidate can predict: random sizes, and inputs of replays.

All choices follow from one seed, which the report contains, so that a run can be repeated. The seed
is held in a separate process (`workers/hidden.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from ttools.core.process.worker import Worker


class HiddenNumbers:
    """Gets numbers from the process that holds the hidden seed.

    Args:
        worker: The process that holds the seed.
    """

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._asked: Counter[str] = Counter()

    def next(self, purpose: str) -> int:
        """Return the next 64-bit number for a purpose.

        Numbers for one purpose do not depend on how many numbers were drawn for other purposes.

        Raises:
            WorkerEndedError: The process has ended.
        """
        self._asked[purpose] += 1
        index = self._asked[purpose]
        request = {"do": "number", "purpose": purpose, "index": index}
        number: int = self._worker.ask(request)["number"]
        return number

    def several(self, purpose: str, count: int) -> Iterator[int]:
        """Yield numbers for a purpose; each number is drawn only when it is needed."""
        for _ in range(count):
            yield self.next(purpose)

    def seed(self) -> int:
        """Return the seed, for the report.

        Raises:
            WorkerEndedError: The process has ended.
        """
        seed: int = self._worker.ask({"do": "seed"})["seed"]
        return seed
