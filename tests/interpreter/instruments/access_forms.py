"""Patterns of memory accesses, with an oracle in NumPy.

The offset and the mask of a pattern are expressions that are valid both in Triton and in NumPy, so
the kernel and its oracle always agree on them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import kernel_text
import numpy as np
import torch

#: Number of elements of the memory that kernels access, and the element at their pointer.
ELEMENTS, ORIGIN = 2048, 512
_BIG = 2**31 - 20

_KERNEL = """\
where = tl.where


@triton.jit(do_not_specialize=["n", "a", "b"])
def kernel(x_ptr, out_ptr, t_ptr, n, a, b, R: tl.constexpr, C: tl.constexpr):
    px, py, pz = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    pid = px + tl.num_programs(0) * (py + tl.num_programs(1) * pz)
    {lanes}
    {t}
    index = {index}
    {inside}
    {access}
"""
_LANES = {
    0: "here = pid",
    1: "lanes = tl.arange(0, R)\nhere = pid * R + lanes",
    2: "rows, cols = tl.arange(0, R)[:, None], tl.arange(0, C)[None, :]\n"
    "here = (pid * R + rows) * C + cols",
}
_ACCESSES = {
    "load": "tl.store(out_ptr + here, tl.load(x_ptr + index{mask}{other}))",
    "store": "tl.store(x_ptr + index, here + 1{mask})",
    "atomic": "tl.atomic_add(x_ptr + index, here + 1{mask})",
    "swap": "tl.store(out_ptr + here, tl.atomic_cas(x_ptr + index, here * 0, here + 1))",
}


@dataclass(frozen=True)
class Form:
    """A pattern of accesses: the addresses of the lanes of each program.

    Attributes:
        index: Expression of the element offset, with the names `px`, `py`, `pz`, `pid`, `lanes` (or
            `rows` and `cols`), the loaded table `t`, and the numbers `n`, `a` and `b`.
        mask: Expression of the active lanes; all lanes by default.
        shape: Shape of the tile.
        grid: Grid of the launch.
        numbers: Values of `n`, `a` and `b`.
        other: Expression of the value of masked-off lanes.
        wild: True if some offsets are far outside of all memory.
    """

    index: str
    mask: str = ""
    shape: tuple[int, ...] = (64,)
    grid: tuple[int, int, int] = (3, 1, 1)
    numbers: Mapping[str, int] = field(default_factory=dict)
    other: str = ""
    wild: bool = False

    @cached_property
    def programs(self) -> int:
        return prod(self.grid)

    @cached_property
    def _names(self) -> dict[str, Any]:
        """Return the values of the names in expressions, with programs along an additional axis."""
        rank = len(self.shape)
        linear = np.arange(self.programs, dtype=np.int32)
        gx, gy, _ = self.grid
        spread = (slice(None), *(None,) * rank)
        program = linear[spread]
        names: dict[str, Any] = {
            "pid": program,
            "px": (linear % gx)[spread],
            "py": (linear // gx % gy)[spread],
            "pz": (linear // (gx * gy))[spread],
            "where": np.where,
            **{name: np.int32(self.numbers.get(name, 0)) for name in "nab"},
        }
        if rank == 1:
            names["lanes"] = np.arange(self.shape[0], dtype=np.int32)[None]
        if rank == 2:
            names["rows"] = np.arange(self.shape[0], dtype=np.int32)[None, :, None]
            names["cols"] = np.arange(self.shape[1], dtype=np.int32)[None, None, :]
        if "t" in self.index:
            names["t"] = self.table.reshape(self.programs, *self.shape)
        return names

    @cached_property
    def table(self) -> np.ndarray:
        """Return random offsets, some of which occur more than once."""
        count = self.programs * prod(self.shape)
        return np.random.default_rng(1).integers(-200, 600, count).astype(np.int32)

    def value(self, text: str) -> np.ndarray:
        """Return the value of an expression for each program and lane."""
        with np.errstate(over="ignore"):
            value = eval(text, {"__builtins__": {}}, self._names)
        return np.broadcast_to(value, (self.programs, *self.shape)).reshape(self.programs, -1)

    def named(self, name: str, program: int, lane: int) -> Any:
        """Return the value of a variable of the kernel in a program and lane."""
        if name == "index":
            return self.value(self.index)[program, lane]
        if name == "inside":
            return self.value(self.mask)[program, lane]
        if name == "here":
            return program * prod(self.shape) + lane
        return self.value(name)[program, lane]

    @cached_property
    def offsets(self) -> np.ndarray:
        """Return the element offsets by program and row-major lane."""
        return self.value(self.index).astype(np.int64)

    @cached_property
    def active(self) -> np.ndarray:
        if not self.mask:
            return np.ones_like(self.offsets, np.bool_)
        return self.value(self.mask)

    @cached_property
    def collides(self) -> bool:
        """Return True if an element is accessed twice."""
        used = self.offsets[self.active]
        return len(np.unique(used)) < len(used)

    def kernel(self, access: str) -> Any:
        """Return a kernel with the accesses of this pattern.

        Args:
            access: Kind of access: load, store, atomic or swap.
        """
        mask = ", mask=inside" if self.mask else ""
        other = f", other={self.other}" if self.other else ""
        used = _ACCESSES[access].format(mask=mask, other=other)
        text = _KERNEL.format(
            lanes=textwrap.indent(_LANES[len(self.shape)], "    ").strip(),
            t="t = tl.load(t_ptr + here)" if "t" in self.index else "",
            index=self.index,
            inside=f"inside = {self.mask}" if self.mask else "",
            access=used,
        )
        return kernel_text.kernel(text)

    def launch(self, access: str, memory: torch.Tensor, out: torch.Tensor) -> None:
        """Run the kernel on memory of `ELEMENTS` elements."""
        R, C = (*self.shape, 1, 1)[:2]
        numbers = [self.numbers.get(name, 0) for name in "nab"]
        self.kernel(access)[self.grid](
            memory[ORIGIN:], out, torch.from_numpy(self.table), *numbers, R=R, C=C
        )

    def empty_out(self) -> torch.Tensor:
        return torch.full((self.programs * prod(self.shape),), -5, dtype=torch.int32)


def fresh_memory(access: str) -> torch.Tensor:
    if access == "swap":
        return torch.zeros(ELEMENTS, dtype=torch.int32)
    return torch.arange(ELEMENTS, dtype=torch.int32) + 10_000


def run_naively(
    form: Form, access: str, memory: np.ndarray, out: np.ndarray, allowed: np.ndarray
) -> None:
    """Execute the kernel in NumPy, where only the allowed lanes access memory."""
    where = (form.offsets + ORIGIN)[allowed]
    lane_numbers = np.arange(out.size, dtype=np.int32).reshape(form.offsets.shape)
    if access == "load":
        loaded = np.full(form.offsets.shape, int(form.other or 0), np.int32)
        loaded[allowed] = memory[where]
        out[:] = loaded.ravel()
    elif access == "atomic":
        np.add.at(memory, where, lane_numbers[allowed] + 1)
    else:
        if access == "swap":
            old = np.zeros(form.offsets.shape, np.int32)
            old[allowed] = memory[where]
            out[:] = old.ravel()
        memory[where] = lane_numbers[allowed] + 1


FORMS = {
    "scalar": Form("pid * 5 + n", shape=(), numbers={"n": -4}),
    "scalar_masked": Form("pid * 5", "pid != a", shape=(), numbers={"a": 1}, other="77"),
    "contiguous": Form("pid * 64 + lanes"),
    "tail": Form("pid * 64 + lanes", "pid * 64 + lanes < n", numbers={"n": 150}, other="-3"),
    "arbitrary_mask": Form("pid * 64 + lanes", "(lanes % 3 == 1) | (lanes > 50)", other="9"),
    "no_lane_active": Form("pid * 64 + lanes", "lanes < n", numbers={"n": 0}),
    "before": Form("lanes - n", "lanes >= a", numbers={"n": 40, "a": 5}, grid=(1, 1, 1)),
    "strided": Form("pid * 130 + lanes * 2"),
    "runtime_stride": Form("(pid * 64 + lanes) * a", numbers={"a": 3}),
    "backwards": Form("n - pid * 64 - lanes", numbers={"n": 200}),
    "broadcast": Form("pid + lanes * 0"),
    "broadcast_masked": Form("pid + lanes * 0", "lanes > 40", other="4"),
    "tiny": Form("pid * 2 + lanes", shape=(2,)),
    "single": Form("pid + lanes", shape=(1,)),
    "tile": Form("pid * 200 + rows * 20 + cols", shape=(8, 16)),
    "tile_masked": Form(
        "pid * 256 + rows * a + cols",
        "(rows < n) & (cols < b)",
        shape=(16, 8),
        numbers={"a": 11, "n": 13, "b": 7},
        other="8",
    ),
    "tile_transposed": Form("pid * 128 + rows + cols * 8", shape=(8, 16)),
    "tile_gapped_columns": Form(
        "pid * 300 + rows + cols * 20", "cols < n", shape=(16, 16), numbers={"n": 9}, other="2"
    ),
    "tile_of_rows": Form("pid + rows * a + cols * 0", shape=(8, 8), numbers={"a": 24}),
    "tile_mixed_signs": Form("pid * 16 + rows * 40 - cols * 2", shape=(8, 32)),
    "tile_wrapped_back": Form(
        "rows * 1073741824 * 4 + cols + pid * 20", shape=(8, 16), grid=(2, 1, 1)
    ),
    "tile_wrapped": Form("rows * 268435456 + cols", shape=(16, 8), wild=True),
    "gather": Form("t"),
    "gather_masked": Form("t", "(t + lanes) % 2 == 0", other="-1"),
    "gather_rows": Form("t * 2 + cols * 0", shape=(8, 8)),
    "modulo": Form("(pid * 64 + lanes) % n", numbers={"n": 37}),
    "wrapped_back": Form("lanes + a + b", numbers={"a": _BIG, "b": -_BIG}, grid=(1, 1, 1)),
    "wrapped": Form("lanes + a", grid=(1, 1, 1), numbers={"a": _BIG}, wild=True),
    "grid": Form("(pz * 3 + py) * 90 + px * 40 + lanes", shape=(32,), grid=(2, 3, 2)),
    "halves": Form("where(lanes < 32, lanes, lanes + n)", numbers={"n": 300}),
}
