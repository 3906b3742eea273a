"""A GPU as its maker publishes it, and at what rate each of its units works.

Rates are without sparsity, in operations per second. Units that do a fixed multiple of what others
do come from NVIDIA's CUDA C++ Best Practices Guide, table "Throughput of Native Arithmetic
Instructions". Which GPUs there are is `products.py`. Must not know how users name a device.
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
        name: as users write it.
        architecture: `sm_90`, `gfx942`.
        multiprocessors: or compute units.
        bandwidth: of its memory, bytes per second.
        cache: bytes of the last level; None if its maker does not say.
        peaks: operations per second by unit: `fp32`, and `dot fp16` and so on for its matrix units,
            `dot fp16 (fp16 sums)` where they are faster if they sum in 16 bits.
        source: where its maker says so.
        unconfirmed: figures, named as in `peaks` or `bandwidth` and `cache`, that no document of
            its maker's was found for.
    """

    name: str
    architecture: str
    multiprocessors: int
    bandwidth: float
    cache: int | None
    peaks: Mapping[str, float]
    source: str = ""
    unconfirmed: tuple[str, ...] = ()

    @property
    def target(self) -> Target:
        return read_target(self.architecture)

    def peak(self, unit: str) -> float | None:
        """Operations per second of a unit; of a close one where it has none of its own."""
        found = self._figure(unit)
        return self.peaks[found[0]] * found[1] if found else None

    def is_confirmed(self, part: str) -> bool:
        """Whether a document of its maker's gives what a bound by `memory` or a unit rests on."""
        name = "bandwidth" if part == "memory" else (self._figure(part) or ("", 0.0))[0]
        return name not in self.unconfirmed

    def _figure(self, unit: str) -> tuple[str, float] | None:
        """Which of the peaks a unit's rate follows from, and the factor."""
        for name in (unit, *_STAND_INS.get(unit, ())):
            if name in self.peaks:
                return name, 1.0
        if several := re.fullmatch(r"(dot \w+)x(\d)", unit):  # products of parts, as of `tf32x3`
            found = self._figure(several[1])
            return (found[0], found[1] / int(several[2])) if found else None
        if unit.endswith(_SUMS):
            return self._figure(unit.removesuffix(_SUMS))
        if unit == "function":
            part = _FUNCTIONS.get(self.architecture)
            return ("fp32", part) if part else None
        if unit in _MULTIPLES:
            return "fp32", float(_MULTIPLES[unit].get(self.architecture, 1))
        return None


_SUMS = " (fp16 sums)"
#: Results of special-function units (reciprocals, roots, sines, powers and logarithms to base 2)
#: as a part of the operations of fp32: 16 a clock beside 64 or 128 fused products of two each.
#: Those of sm_103 are faster, by how much is published for powers only.
#: What takes no such unit takes eight instructions or more.
_FUNCTIONS = {
    **dict.fromkeys(("sm_75", "sm_80"), 16 / (2 * 64)),
    **dict.fromkeys(("sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_120"), 16 / (2 * 128)),
}
#: Operations as multiples of those of fp32. Of 16-bit floats, two to an instruction: 256 a clock
#: and multiprocessor of compute capability 8.0 and 9.0, 128 of 7.5. On 32-bit integers: what a
#: multiprocessor can issue, 128 lanes a clock, each of which does two at most (a product and a sum,
#: three of logic or sum); the units themselves are slower, by how much depends on which they are.
_MULTIPLES: dict[str, dict[str, int]] = {
    "fp16": {"sm_75": 2, "sm_80": 4, "sm_90": 2},
    "bf16": {"sm_80": 2, "sm_90": 2},
    "integer": {"sm_75": 2, "sm_80": 2},
}
_FP8 = ("f8E4M3FN", "f8E5M2", "f8E4M3FNUZ")
#: Units that do the work of others: products of bf16 as those of fp16, of fp32 as tf32.
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
