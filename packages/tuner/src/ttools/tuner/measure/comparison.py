"""Whether the outputs of a configuration are those of the reference.

Owns the tolerances and their wording. Must not know how outputs came to be.

Configurations sum in different orders, so floating-point outputs may differ a little. An element
may be off by `rtol` times its own magnitude plus `rtol` times the root mean square of the
reference's finite elements: sums that cancel are as exact as their terms, not as their result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

#: By dtype: about 4 units in the last place of the 8- and 16-bit formats, and room for products
#: of some thousand terms in the wider ones. All other types must agree exactly.
TOLERANCES = {
    "float64": 1e-10,
    "float32": 1e-4,
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "float8_e4m3fn": 0.25,
    "float8_e4m3fnuz": 0.25,
    "float8_e5m2": 0.5,
    "float8_e5m2fnuz": 0.5,
}


def compare(
    reference: Mapping[str, Any], other: Mapping[str, Any], rtol: float | None = None
) -> str | None:
    """What is wrong with the outputs of a configuration.

    Args:
        reference: tensors by name of the argument.
        other: the same of the configuration.
        rtol: replaces the table for floating-point types.

    Returns:
        None if nothing is; else which argument, how many elements, and the worst of them.
    """
    for name in dict.fromkeys([*reference, *other]):
        if name not in other or name not in reference:
            where = "does not write" if name not in other else "writes"
            return f"{where} `{name}`, unlike the reference"
        found = _difference(name, reference[name], other[name], rtol)
        if found:
            return found
    return None


def incomparable(reference: Mapping[str, Any]) -> str:
    """Which of these outputs comparisons say nothing about, having no number; empty if none."""
    import torch

    names = [
        f"`{name}`"
        for name, tensor in reference.items()
        if tensor.is_floating_point()
        and tensor.numel()
        and bool(torch.isnan(tensor.to(torch.float32)).all())
    ]
    return f"{', '.join(names)}: every element is NaN" if names else ""


def _difference(name: str, reference: Any, other: Any, rtol: float | None) -> str | None:
    import torch

    if other is reference or _same_bits(reference, other):
        return None
    dtype = str(reference.dtype).removeprefix("torch.")
    allowed = TOLERANCES.get(dtype)
    if allowed is None:
        wrong = reference != other
        if not bool(wrong.any()):
            return None
        return _mismatch(name, wrong, reference, other, "exactly")
    allowed = allowed if rtol is None else rtol
    want, have = reference.to(torch.float64), other.to(torch.float64)
    finite = want[torch.isfinite(want)]
    scale = float(finite.square().mean().sqrt()) if finite.numel() else 0.0
    near = (have - want).abs() <= allowed * (want.abs() + scale)
    same = (want == have) | (torch.isnan(want) & torch.isnan(have))
    both = torch.isfinite(want) & torch.isfinite(have)
    wrong = ~(same | (near & both))
    if not bool(wrong.any()):
        return None
    return _mismatch(name, wrong, want, have, f"within {allowed:g}")


def _same_bits(reference: Any, other: Any) -> bool:
    """Quick, and true of all that a kernel only reads."""
    import torch

    if reference.shape != other.shape or reference.dtype != other.dtype:
        return False
    own, its = (each.contiguous().flatten().view(torch.uint8) for each in (reference, other))
    return bool(torch.equal(own, its))


def _mismatch(name: str, wrong: Any, want: Any, have: Any, how: str) -> str:
    import torch

    gap = (have.to(torch.float64) - want.to(torch.float64)).abs()
    gap = torch.where(torch.isfinite(gap), gap, torch.inf)
    flat = int(torch.where(wrong, gap, -1.0).flatten().argmax())
    index = [int(n) for n in np.unravel_index(flat, tuple(want.shape))]
    at = f"[{', '.join(map(str, index))}]"
    got, expected = have.flatten()[flat].item(), want.flatten()[flat].item()
    count, total = int(wrong.sum()), wrong.numel()
    return (
        f"{count:,} of {total:,} elements of `{name}` differ from the reference ({how}): "
        f"{name}{at} is {_number(got)}, not {_number(expected)}"
    )


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
