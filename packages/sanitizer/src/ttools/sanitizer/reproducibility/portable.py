"""Hashes that can be compared between GPUs of different architectures.

Operations that IEEE 754 defines bit by bit have equal results on every GPU. Approximations, such as
that of `exp`, and the sums inside a tensor core instruction are not specified, so the results of
these operations count as unknown.
"""

from __future__ import annotations

import numpy as np

from ttools.interpreter.eager.debugging.frames import location
from ttools.interpreter.eager.elements import Handle
from ttools.sanitizer.reproducibility.follower import HashFollower, is_float
from ttools.sanitizer.reproducibility.hashes import UNKNOWN, Hashed

#: Operations whose results are exact or rounded once on every GPU.
_SPECIFIED = frozenset(
    (
        *("fadd", "fsub", "fmul", "fma", "fneg", "precise_divf", "precise_sqrt", "sum"),
        *("maximumf", "maxnumf", "minimumf", "minnumf", "fabs", "floor", "ceil", "clampf"),
        *("fp_ext", "fp_trunc", "fp_to_fp", "si_to_fp", "ui_to_fp", "bitcast", "select"),
    )
)


class PortableFollower(HashFollower):
    """Follows a launch, and marks results as unknown if their bits depend on the GPU."""

    def adjusted(
        self, operation: str, result: Handle, values: Hashed, text: str, axis: int | None
    ) -> Hashed:
        """Return the hashes of a result; mark them as unknown if no standard defines the bits."""
        reason = _unspecified(operation, text) if is_float(result) else ""
        if reason:
            self.reasons.setdefault(reason, location())
            return np.asarray(values | UNKNOWN)
        return values


def _unspecified(operation: str, text: str) -> str:
    """Return why two GPUs may compute different bits; empty if they cannot."""
    if operation == "dot":
        exact = text.startswith("fma")
        return "" if exact else "tensor cores of two GPUs may add the terms in another order"
    if operation in _SPECIFIED or operation.startswith("reduce with "):
        return ""
    return f"no standard defines the bits of `{operation}`, so that two GPUs may differ"
