"""The process that holds the hidden seed of a verification.

Candidates run in forks of the process that compares results, so they can read the memory of that
process. The hidden seed is therefore drawn in a separate process, which is started before all
candidates and answers with one number at a time.
"""

from __future__ import annotations

import hashlib
import os
from typing import Any

from ttools.core.process.channel import Channel

_SEED_BYTES, _NUMBER_BYTES = 6, 8


class Hidden:
    """Answers requests for numbers that are derived from a seed.

    Args:
        seed: The seed, which allows a run to be repeated; by default it is drawn from the system.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._seed = seed

    def serve(self, channel: Channel) -> None:
        """Answer requests until there are no more."""
        self._seed = self.drawn()
        while True:
            channel.send(self.answer(channel.receive()))

    def drawn(self) -> int:
        """Return the given seed or, if there is none, one that is drawn from the system."""
        if self._seed is not None:
            return self._seed
        return int.from_bytes(os.urandom(_SEED_BYTES), "little")

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the seed, or the number for a purpose and an index."""
        if request["do"] == "seed":
            return {"seed": self._seed}
        text = f"{self._seed} {request['purpose']} {request['index']}"
        digest = hashlib.sha256(text.encode()).digest()
        return {"number": int.from_bytes(digest[:_NUMBER_BYTES], "little")}
