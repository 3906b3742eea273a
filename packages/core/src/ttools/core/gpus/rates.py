"""A data class for a GPU with its published data, and the rates of its units.

Rates are without sparsity, in operations per second. Units with a fixed multiple of another unit's
rate come from NVIDIA's CUDA C++ Best Practices Guide, table "Throughput of Native Arithmetic
Instructions". `products.py` lists the GPUs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ttools.core.gpus.targets import Target, read_target


@dataclass(frozen=True, kw_only=True)
class Device:
    """A GPU.

    Attributes:
        name: Name as users write it.
        architecture: Target name, such as `sm_90` or `gfx942`.
        multiprocessors: Number of multiprocessors or compute units.
        bandwidth: Bytes per second of its memory.
        cache: Size of the last-level cache in bytes; None if the maker does not publish it.
        peaks: Operations per second by unit: `fp32`, and `dot fp16` etc. for matrix units, `dot
            fp16 (fp16 sums)` if they are faster with 16-bit sums.
        source: The document that contains the figures.
        memory: Bytes of its memory, where 1 GB in a data sheet means 2^30 bytes; None if unknown.
        unconfirmed: Names of figures that no document of the maker confirms: keys of `peaks`, or
            `bandwidth` and `cache`.
    """

    name: str
    architecture: str
    multiprocessors: int
    bandwidth: float
    cache: int | None
    peaks: Mapping[str, float]
    source: str = ""
    memory: int | None = None
    unconfirmed: tuple[str, ...] = ()

    @property
    def target(self) -> Target:
        return read_target(self.architecture)

    def peak(self, unit: str) -> float | None:
        """Return the operations per second of a unit, derived from a similar unit if necessary."""
        figure = self._figure(unit)
        return self.peaks[figure[0]] * figure[1] if figure else None

    def is_confirmed(self, part: str) -> bool:
        """Return whether the maker confirms the bandwidth (`memory`) or the rate of a unit."""
        name = "bandwidth" if part == "memory" else (self._figure(part) or ("", 0.0))[0]
        return name not in self.unconfirmed

    def _figure(self, unit: str) -> tuple[str, float] | None:
        """Return the name of the peak from which a unit's rate is derived, and the factor."""
        for name in (unit, *_STAND_INS.get(unit, ())):
            if name in self.peaks:
                return name, 1.0
        if several := re.fullmatch(r"(dot \w+)x(\d)", unit):  # several products, such as `tf32x3`
            figure = self._figure(several[1])
            return (figure[0], figure[1] / int(several[2])) if figure else None
        if unit.endswith(_SUMS):
            return self._figure(unit.removesuffix(_SUMS))
        if unit == "function":
            part = _FUNCTIONS.get(self.architecture)
            return ("fp32", part) if part else None
        if unit in _MULTIPLES:
            return "fp32", float(_MULTIPLES[unit].get(self.architecture, 1))
        return None


_SUMS = " (fp16 sums)"
#: Rate of special-function units (reciprocals, roots, sines, powers and logarithms to base 2)
#: relative to the rate of fp32: 16 results per clock, compared with 64 or 128 fused multiply-adds,
#: which count as two operations each. The units of sm_103 are faster, but their rate is published
#: for powers only. Functions that use no such unit take eight instructions or more.
_FUNCTIONS = {
    **dict.fromkeys(("sm_75", "sm_80"), 16 / (2 * 64)),
    **dict.fromkeys(("sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_120"), 16 / (2 * 128)),
}
#: Rates as multiples of the rate of fp32. An instruction computes two 16-bit floats; a
#: multiprocessor computes 256 of them per clock with compute capability 8.0 and 9.0, and 128 with
#: 7.5. For 32-bit integers, the rate is the issue limit of a multiprocessor: 128 lanes per clock
#: with at most two operations each (a multiply-add, or a three-input logic operation or sum). Some
#: integer units are slower than that.
_MULTIPLES: dict[str, dict[str, int]] = {
    "fp16": {"sm_75": 2, "sm_80": 4, "sm_90": 2},
    "bf16": {"sm_80": 2, "sm_90": 2},
    "integer": {"sm_75": 2, "sm_80": 2},
}
_FP8 = ("f8E4M3FN", "f8E5M2", "f8E4M3FNUZ")
#: Units whose rate is used for another unit: the rate of fp16 products is used for bf16, and that
#: of tf32 products for fp32.
_STAND_INS: dict[str, tuple[str, ...]] = {
    "dot bf16": ("dot fp16",),
    "dot fp32": ("dot tf32", "fp32"),
    "dot fp64": ("fp64",),
    "dot i8": ("dot int8", "dot fp8"),
    **{f"dot {name}": ("dot fp8", "dot fp16") for name in _FP8},
    **{
        f"dot {name} (fp16 sums)": ("dot fp8 (fp16 sums)", "dot fp8", "dot fp16 (fp16 sums)")
        for name in _FP8
    },
}
