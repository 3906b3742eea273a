"""Comparison of a configuration's outputs with those of the reference.

Configurations add numbers in different orders, so floating-point outputs may differ slightly. An
element may differ by `rtol` times its own magnitude plus `rtol` times the root mean square of the
reference's finite elements. The second term covers sums whose terms cancel: their error is
proportional to their terms, not to their result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

#: Relative tolerance by dtype: about 4 units in the last place for the 8- and 16-bit formats. The
#: tolerances of the wider formats allow for sums of several thousand products. Values of all other
#: types must be equal.
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
    """Compare the outputs of a configuration with the reference.

    Args:
        reference: Expected tensors by argument name.
        other: Tensors of the configuration by argument name.
        rtol: Replaces the table of tolerances for floating-point types.

    Returns:
        None if the outputs agree; otherwise a message that names the argument, the number of
        elements that differ, and the worst of these.
    """
    for name in dict.fromkeys([*reference, *other]):
        if name not in other or name not in reference:
            where = "does not write" if name not in other else "writes"
            return f"{where} `{name}`, unlike the reference"
        difference = _difference(name, reference[name], other[name], rtol)
        if difference:
            return difference
    return None


def bit_equal(reference: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether all outputs of a configuration have the same bits as the reference's."""
    return reference.keys() == other.keys() and all(
        other[name] is tensor or _same_bits(tensor, other[name])
        for name, tensor in reference.items()
    )


def incomparable(reference: Mapping[str, Any]) -> str:
    """Return which outputs cannot be verified because all their elements are NaN; empty if none."""
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
    """Return whether two tensors are bitwise equal; this is a fast path for unchanged arguments."""
    import torch

    if reference.shape != other.shape or reference.dtype != other.dtype:
        return False
    own, its = (tensor.contiguous().flatten().view(torch.uint8) for tensor in (reference, other))
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
