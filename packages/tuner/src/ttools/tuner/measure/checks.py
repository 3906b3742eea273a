"""How strictly the outputs of a configuration are verified. Must not know how they came to be."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Checks:
    """How outputs are verified.

    Attributes:
        sanitize: whether each configuration runs under the sanitizer first.
        rtol: replaces the tolerances by dtype.
        scratch: names of arguments whose contents do not matter.
        reference: the function that outputs are compared with, see `references`; by default the
            first configuration that runs.
    """

    sanitize: bool = False
    rtol: float | None = None
    scratch: Collection[str] = ()
    reference: str = ""

    def __str__(self) -> str:
        parts = [
            "sanitized" if self.sanitize else "",
            "" if self.rtol is None else f"rtol={self.rtol:g}",
            f"without {', '.join(sorted(self.scratch))}" if self.scratch else "",
            f"reference {self.reference}" if self.reference else "",
        ]
        return "; ".join(filter(None, parts))
