"""Values on which operations are compared: special values first, then random ones."""

from __future__ import annotations

import itertools
import zlib

import torch

from tools.gpu_op_table.rows import DTYPES, Input, Sample

#: Number of lanes of a kernel. Operations on one 16-bit operand are compared on all its values.
LANES = 4096
EVERY_16_BIT = 1 << 16

_FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, float("nan"), float("inf"), -float("inf"), 0.5, 1.5, 2.5, -2.5),
    *(7.0, 10.0, 126.99, 300.7, -300.7, 460.0, 1e20, -1e20, 2.0**31, -(2.0**31), 2.0**63),
    *(65519.0, 65520.0, 1 / 3),
)
_INTEGERS = (0, 1, -1, 2, -2, 3, 5, 7, -7, 10, 31, 32, 33, 63, 64, 127, 128, 255, 256, 1 << 23)
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def make_inputs(inputs: tuple[Input, ...], count: int) -> list[torch.Tensor]:
    """Return the tensors of a kernel, the same in every process."""
    seed = zlib.crc32(repr(inputs).encode())
    generator = torch.Generator().manual_seed(seed)
    pairs = len(inputs) > 1 and all(not i.shape for i in inputs)
    made = []
    for position, operand in enumerate(inputs):
        size = torch.Size(operand.shape).numel() if operand.shape else count
        values = _values(operand, size, generator)
        if pairs and isinstance(operand.sample, str):
            _meet(values, operand, position, len(inputs))
        made.append(_restrict(values, operand.sample).reshape(operand.shape or (size,)).clone())
    return made


def lane_count(inputs: tuple[Input, ...]) -> int:
    """Return the number of lanes of a kernel with these operands."""
    every = len(inputs) == 1 and DTYPES[inputs[0].dtype].itemsize == 2
    return EVERY_16_BIT if every else LANES


def specials(dtype: str) -> torch.Tensor:
    """Return special values, at which operations change their behaviour."""
    kind = DTYPES[dtype]
    if kind is torch.bool:
        return torch.tensor([False, True])
    if not kind.is_floating_point:
        bits = kind.itemsize * 8
        signed = "u" not in dtype
        ends = [-(1 << (bits - 1)), (1 << (bits - 1)) - 1] if signed else [(1 << bits) - 1]
        raw = [v & ((1 << bits) - 1) for v in (*_INTEGERS, *ends)]
        wrapped = [v - (1 << bits) if v >> (bits - 1) else v for v in raw]
        return torch.tensor(wrapped, dtype=_BITS[kind.itemsize]).view(kind)
    info = torch.finfo(kind)
    ends_f = [info.max, info.min, info.smallest_normal, -info.smallest_normal, info.eps]
    values = torch.tensor([*_FLOATS, *ends_f, 1 + info.eps], dtype=torch.float64)
    least = round(1 / info.eps)  # the bits of the smallest normal number
    magnitudes = (1, 2, least // 2, least - 1)
    negative = -1 << (kind.itemsize * 8 - 1)
    denormals = [b + sign for b in magnitudes for sign in (0, negative)]
    tiny = torch.tensor(denormals, dtype=_BITS[kind.itemsize])
    return torch.cat([_raw(_to(values, kind)), tiny]).view(kind)


def _raw(values: torch.Tensor) -> torch.Tensor:
    """Return the bits as integers, because torch cannot index tensors of every type."""
    return values if values.dtype is torch.bool else values.view(_BITS[values.dtype.itemsize])


def _to(values: torch.Tensor, kind: torch.dtype) -> torch.Tensor:
    return values.float().to(kind) if kind.itemsize == 1 else values.to(kind)


def _values(operand: Input, size: int, generator: torch.Generator) -> torch.Tensor:
    kind = DTYPES[operand.dtype]
    if not isinstance(operand.sample, str):
        low, high = operand.sample
        uniform = torch.rand(size, generator=generator, dtype=torch.float64) * (high - low) + low
        if operand.dtype == "u64":
            return uniform.to(torch.int64).view(kind)
        return _to(uniform, kind)
    if operand.sample == "whole":
        whole = torch.randint(-4, 5, (size,), generator=generator)
        return _to(whole.abs().double() if "u" in operand.dtype else whole.double(), kind)
    if kind is torch.bool:
        return torch.randint(0, 2, (size,), generator=generator) == 1
    if size == EVERY_16_BIT and kind.itemsize == 2:
        return torch.arange(-(1 << 15), 1 << 15, dtype=torch.int16).view(kind)
    special = specials(operand.dtype)
    bits = kind.itemsize * 8
    low_i, high_i = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    wide = torch.randint(low_i, high_i, (size,), generator=generator)
    if kind.is_floating_point:
        random = wide.to(_BITS[kind.itemsize]).view(kind)
        # Half of the values have common magnitudes.
        everyday = _to(torch.randn(size, generator=generator)[::2].double() * 20, kind)
        _raw(random)[::2] = _raw(everyday)
    else:
        shift = torch.randint(0, bits, (size,), generator=generator)
        random = (wide >> shift).to(_BITS[kind.itemsize]).view(kind)
    _raw(random)[: len(special)] = _raw(special)[:size]
    return random


def _meet(values: torch.Tensor, operand: Input, position: int, count: int) -> None:
    """Combine each special value of an operand with each special value of the next operand."""
    special = specials(operand.dtype)
    n = len(special)
    pairs = list(itertools.islice(itertools.product(range(n), repeat=min(count, 2)), len(values)))
    chosen = torch.tensor([pair[position % 2] for pair in pairs])
    if position == 2:
        chosen = (chosen * 7 + torch.arange(len(pairs))) % n
    _raw(values)[: len(pairs)] = _raw(special)[chosen]


def _restrict(values: torch.Tensor, sample: Sample) -> torch.Tensor:
    """Replace the values that do not belong to a sample."""
    kind = values.dtype
    if sample == "normal":
        tiny = values.double().abs() < torch.finfo(kind).smallest_normal
        return torch.where(tiny & (values.double() != 0), torch.ones((), dtype=kind), values)
    if sample == "nonzero":
        raw = _raw(values)
        return torch.where(raw == 0, torch.full_like(raw, 3), raw).view(kind)
    if sample == "denormal":
        info = torch.finfo(kind)
        least = round(1 / info.eps)  # the bits of the smallest normal number
        raw = _raw(values)
        return (raw & ((least - 1) | torch.iinfo(raw.dtype).min)).view(kind)
    if sample == "zero":
        return torch.zeros_like(values)
    if sample == "shift":
        raw = _raw(values)
        return (raw & (kind.itemsize * 8 - 1)).view(kind)
    if sample == "overshift":
        raw = _raw(values)
        return ((raw & 31) + kind.itemsize * 8).view(kind)
    if sample == "power of two":
        exponent = (_raw(values).to(torch.int64) % 8).double() - 3
        return torch.exp2(exponent).to(kind)
    if sample == "ordered":
        # NaNs, and zeros of both signs, have no defined order.
        return torch.where(torch.isnan(values) | (values == 0), torch.ones((), dtype=kind), values)
    return values
