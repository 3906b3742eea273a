"""How a configuration is judged: how strictly its outputs are verified, and by whose times.

Trials of other checks are not used again. Must not know how outputs came to be.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Checks:
    """How outputs are verified, and who times.

    Attributes:
        sanitize: whether each configuration runs under the sanitizer first.
        rtol: replaces the tolerances by dtype.
        scratch: names of arguments whose contents do not matter.
        reference: the function that outputs are compared with, see `references`; by default the
            first configuration that runs.
        timed_by: the benchmark function of the decorator; empty for our own timing.
    """

    sanitize: bool = False
    rtol: float | None = None
    scratch: Collection[str] = ()
    reference: str = ""
    timed_by: str = ""

    def __str__(self) -> str:
        parts = [
            "sanitized" if self.sanitize else "",
            "" if self.rtol is None else f"rtol={self.rtol:g}",
            f"without {', '.join(sorted(self.scratch))}" if self.scratch else "",
            f"reference {self.reference}" if self.reference else "",
            f"timed by {self.timed_by}" if self.timed_by else "",
        ]
        return "; ".join(filter(None, parts))
