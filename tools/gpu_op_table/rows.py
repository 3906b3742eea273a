"""A row of the table: inputs, statements of a kernel, and the bound on the difference."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

#: torch types, by short forms of the names in Triton's documentation.
DTYPES: dict[str, torch.dtype] = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8e4nv": torch.float8_e4m3fn,
    "fp8e5": torch.float8_e5m2,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "u8": torch.uint8,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
    "i1": torch.bool,
}
#: Names of the types in `triton.language`.
TRITON_NAMES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "fp8e4nv": "float8e4nv",
    "fp8e5": "float8e5",
    **{f"{s}{n}": f"{'u' if s == 'u' else ''}int{n}" for s in "iu" for n in (8, 16, 32, 64)},
    "i1": "int1",
}
FLOATS = ("f64", "f32", "f16", "bf16")
FP8 = ("fp8e4nv", "fp8e5")
SIGNED = ("i8", "i16", "i32", "i64")
UNSIGNED = ("u8", "u16", "u32", "u64")
INTEGERS = (*SIGNED, *UNSIGNED)

#: Values of an input: the name of a sample, or the interval of a uniform distribution.
Sample = str | tuple[float, float]


@dataclass(frozen=True)
class Bound:
    """The greatest difference between results of the engine and of the GPU.

    An element passes if its bits are equal, if both results are NaN, or if the difference is within
    one of the two distances.

    Attributes:
        ulps: Distance in units in the last place of the result's type; 0 requires equal bits.
        absolute: Distance between the values.
        zeros: If True, +0 and -0 count as equal.
        why: Reason why the hardware is inexact; empty if equal bits are required.
    """

    ulps: float = 0
    absolute: float = 0.0
    why: str = ""
    zeros: bool = False

    @property
    def exact(self) -> bool:
        return not (self.ulps or self.absolute or self.zeros)

    def __str__(self) -> str:
        if self.exact:
            return "bits"
        parts = [f"{self.ulps:g} ulp"] if self.ulps else []
        parts += [f"{self.absolute:.2g} abs"] if self.absolute else []
        parts += ["sign of 0"] if self.zeros else []
        return " or ".join(parts)


EXACT = Bound()


@dataclass(frozen=True)
class Input:
    """A tensor that a kernel reads: type, values, and shape of the tile (empty for all lanes)."""

    dtype: str
    sample: Sample = "any"
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Output:
    """A tensor that a kernel writes.

    Attributes:
        dtype: Type of the elements.
        shape: Shape of the tile; empty for as many lanes as the inputs have.
        fill: Value of all elements before the launch.
        stored: If True, the kernel stores the result; otherwise, the body writes to the pointer.
    """

    dtype: str
    shape: tuple[int, ...] = ()
    fill: float = 0
    stored: bool = True


@dataclass(frozen=True, kw_only=True)
class Row:
    """One operation on one combination of types.

    Attributes:
        family: Section of the table.
        name: Operation.
        types: Types as text for the table.
        inputs: Tensors that are loaded as `x`, `y`, `z`; rows with equal inputs share a kernel.
        outputs: Results that are compared.
        body: Statements with placeholders: `{0}`, `{1}` for the names of the outputs, and
            `{0}_ptr` for their pointers.
        bound: Maximum difference of the results.
        programs: Number of programs for a row of tiles; rows of lanes run as many as they need.
        alone: If True, the row has its own kernel, because other operations affect the result.
        deviation: Reason why the row is known to exceed its bound, which then is not a failure.
    """

    family: str
    name: str
    types: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    body: str
    bound: Bound = EXACT
    programs: int = 1
    alone: bool = False
    deviation: str = ""

    @property
    def key(self) -> str:
        """The unique name of the row."""
        return f"{self.family}: {self.name} [{self.types}]"


@dataclass(frozen=True)
class Group:
    """Rows that one kernel computes."""

    rows: tuple[Row, ...]

    @property
    def inputs(self) -> tuple[Input, ...]:
        return self.rows[0].inputs

    @property
    def outputs(self) -> list[Output]:
        return [output for row in self.rows for output in row.outputs]

    @property
    def lanes(self) -> bool:
        """True if the kernel processes vectors of any length, rather than one tile."""
        return not any(i.shape for i in self.inputs) and not any(o.shape for o in self.outputs)


@dataclass(frozen=True)
class Operation:
    """An elementwise operation, from which rows are made.

    Attributes:
        name: Name in the table.
        expression: Expression of `x`, `y` and `z`.
        bound: Maximum difference of the results.
        sample: Sample of all operands, or one sample for each.
        result: Type of the result; empty for the type of the first operand.
        alone: Same as `Row.alone`.
        deviation: Same as `Row.deviation`.
    """

    name: str
    expression: str
    bound: Bound = EXACT
    sample: Sample | tuple[Sample, ...] = "any"
    result: str = ""
    alone: bool = False
    deviation: str = ""


def operands(expression: str) -> int:
    """Return the number of operands that an expression uses: those up to the last of `x, y, z`."""
    words = "".join(c if c.isalnum() or c == "_" else " " for c in expression).split()
    return max(("x", "y", "z").index(w) + 1 for w in words if w in ("x", "y", "z"))


def lanes(family: str, dtypes: Iterable[str], operations: Iterable[Operation]) -> list[Row]:
    """Return the rows of elementwise operations for each of several types."""
    listed = list(operations)
    return [_lane_row(family, dtype, operation) for dtype in dtypes for operation in listed]


def _lane_row(family: str, dtype: str, operation: Operation) -> Row:
    count = operands(operation.expression)
    sample = operation.sample
    interval = isinstance(sample, tuple) and isinstance(sample[0], (int, float))
    samples = (sample,) * count if isinstance(sample, str) or interval else sample
    return Row(
        family=family,
        name=operation.name,
        types=dtype,
        inputs=tuple(Input(dtype, s) for s in samples),  # type: ignore[arg-type]
        outputs=(Output(operation.result or dtype),),
        body=f"{{0}} = {operation.expression}",
        bound=operation.bound,
        alone=operation.alone,
        deviation=operation.deviation,
    )


def groups(rows: Iterable[Row], size: int = 12) -> list[Group]:
    """Group rows with equal inputs, with at most `size` rows per kernel."""
    by_inputs: dict[object, list[list[Row]]] = {}
    for row in rows:
        tile = bool(row.inputs[0].shape) or any(o.shape for o in row.outputs)
        key = (row.inputs, row.programs, tile, row.key if row.alone else "")
        chunks = by_inputs.setdefault(key, [[]])
        if len(chunks[-1]) == size:
            chunks.append([])
        chunks[-1].append(row)
    return [Group(tuple(chunk)) for chunks in by_inputs.values() for chunk in chunks]
