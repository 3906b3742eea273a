"""Options that determine how outputs are verified and how launches are timed.

Stored trials record these options as text (`str(checks)`): a trial that was verified under
different options is not reused.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Checks:
    """Options for the verification and timing of configurations.

    Attributes:
        sanitize: If True, each configuration first runs under the sanitizer.
        rtol: Relative tolerance that replaces the table of tolerances per dtype; None uses the
            table.
        scratch: Names of arguments whose contents are not compared.
        reference: Function that computes the expected outputs, see `references`. If empty, outputs
            are compared with those of the first configuration that runs.
        timed_by: Identity of the decorator's benchmark function; empty if ttools measures the
            times.
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
