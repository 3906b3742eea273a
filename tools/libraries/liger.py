"""Which of Liger-Kernel's own test files belong to which operators."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

#: The operators whose test files run when none are named.
OPERATORS = (
    *("rms_norm", "layer_norm", "group_norm", "swiglu", "geglu", "rope", "cross_entropy"),
    *("fused_linear_cross_entropy", "kl_div", "jsd", "softmax", "sparsemax", "dyt"),
)


def test_files(checkout: Path, only: Sequence[str]) -> list[tuple[str, Path]]:
    """The test file of each operator, by its name; of `OPERATORS` if none are named."""
    folder = checkout / "test" / "transformers"
    return [(name, folder / f"test_{name}.py") for name in only or OPERATORS]
