"""The range of results that a GPU may compute for a launch, to first order.

A `GpuFollower` follows a launch as the check `accuracy` does, but the rows of its shadows describe
what a GPU may compute differently. Each operation adds the largest difference that the rules of the
GPU allow, multiplied by Cauchy-distributed random numbers, so that the scale of the rows of an
output estimates the sum of all absolute differences; see `docs/design/accuracy.md`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ttools.core.errors import UsageError
from ttools.core.gpus.devices import read_gpu
from ttools.core.reports.accuracy import GPU_RULES, GpuRange
from ttools.interpreter.eager.elements import Handle
from ttools.interpreter.run.interpretation import active_run, dot_mode
from ttools.sanitizer.accuracy import functions
from ttools.sanitizer.accuracy.follower import Follower, is_float
from ttools.sanitizer.accuracy.memory import StorageShadow
from ttools.sanitizer.accuracy.shadow import Shadow, as_exact, geometric_mean, precision, weighted
from ttools.sanitizer.accuracy.sources import Array, in_random_numbers
from ttools.sanitizer.accuracy.verdicts import limits

#: Number of rows of each rule.
_ROWS = 8
#: Largest factor of a random change, as in `shadow.random_changes`.
_MOST = 1000.0
_PRODUCTS, _FUNCTIONS, _ORDER, _FUSION = range(len(GPU_RULES))
_SMALLEST_NORMAL = 2.0**-126
#: Threads of a warp, and steps in which they add their values.
_THREADS, _STEPS = 32, 5
#: Errors, in ulp, of the float32 functions to which Triton compiles operations, from the tables of
#: the CUDA C++ Programming Guide. The engine's own errors are added.
_ULPS = {
    "fdiv": 2.0,
    "approx_divf": 2.0,
    "exp": 2.0,
    "exp2": 2.0,
    "exp10": 2.0,
    "expm1": 1.0,
    "log": 1.0,
    "log2": 1.0,
    "log10": 2.0,
    "log1p": 1.0,
    "sqrt": 1.0,
    "rsqrt": 2.0,
    "sin": 2.0,
    "cos": 2.0,
    "tan": 4.0,
    "asin": 2.0,
    "acos": 2.0,
    "atan": 2.0,
    "atan2": 3.0,
    "sinh": 3.0,
    "cosh": 2.0,
    "tanh": 2.0,
    "asinh": 3.0,
    "acosh": 4.0,
    "atanh": 3.0,
    "pow": 4.0,
    "erf": 2.0,
    "erfc": 4.0,
    "cbrt": 1.0,
    "lgamma": 6.0,
    "hypot": 3.0,
    "sinpi": 1.0,
    "cospi": 1.0,
}
#: Additional error of `exp` for each unit of its operand, because the operand is multiplied by
#: log2(e) first.
_EXP_SLOPE = 1.173
#: Number of products that a tensor core adds at once, by the size of an operand in bytes.
_AT_ONCE = {1: 32, 2: 16, 4: 8}
#: Tensor cores align the terms of a sum to the largest exponent and drop the bits that are this far
#: below it; then they truncate the sum to float32.
_CUT_TERMS, _CUT_SUM = 2.0**-25, 2.0**-23
#: Relative error of sums of 8-bit products on GPUs that add them with 14 bits.
_CUT_FP8, _CAPABILITIES_FP8 = 2.0**-13, ("sm_89", "sm_90")
#: Relative error of products of rounded operands, for an engine that multiplies exact operands.
_OPERANDS = {"TF32": 2.0**-9, "TF32x3": 2.0**-20, "BF16x3": 2.0**-15, "BF16x6": 2.0**-22}


@dataclass(kw_only=True)
class GpuFollower(Follower):
    """Follows a launch and adds up the differences that a GPU's results may have.

    Attributes:
        architecture: Architecture of the GPU, such as `sm_90`.
        random: Random numbers for the rows.
    """

    architecture: str
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))
    _error: Array = field(default_factory=lambda: np.zeros(()), init=False)

    def operation(self, name: str, arguments: Sequence[Any], result: Any) -> None:
        """Compute the shadows of an operation's results and add what a GPU may do differently."""
        first = next(iter(result), None) if name in _SEVERAL else result
        is_new = isinstance(first, Handle) and first.shadow is None
        self._error = np.zeros(())
        super().operation(name, arguments, result)
        if not isinstance(first, Handle) or not is_float(first) or in_random_numbers():
            return
        operation = name.removeprefix("create_")
        with np.errstate(all="ignore"):
            if operation in ("fadd", "fsub"):
                self._add(first, _FUSION, _fused(arguments, first))
            if is_new and operation in _BOUNDS:
                rule, bound = _BOUNDS[operation]
                width = bound(self, operation, arguments, first)
                if width is not None:
                    self._add(first, rule, width + self._error)

    def finish(
        self,
        operation: str,
        result: Handle,
        operands: Sequence[Handle],
        on_actual: Array,
        shadow: Shadow,
    ) -> None:
        """Complete the shadow of a result; see `Follower.finish`."""
        error = np.abs(as_exact(result.data) - on_actual)
        self._error = np.where(np.isfinite(error), error, 0.0).astype(np.float64)
        result.shadow = shadow
        if operation == "atomic_rmw":
            # The first addition to an element that is zero is exact, whatever the order.
            before = np.abs(as_exact(operands[0].data))
            size = np.where(before > 0, before + np.abs(on_actual), 0.0)
            self._add(result, _ORDER, _spacing(result) / 2 * size)

    def _add(self, result: Handle, rule: int, width: Any) -> None:
        """Add a difference that a GPU's result may have to the rows of a value."""
        width = np.broadcast_to(np.asarray(width, np.float64), result.data.shape)
        if not width.any():
            return
        shadow = result.shadow if isinstance(result.shadow, Shadow) else None
        if shadow is None:
            shadow = result.shadow = Shadow(as_exact(result.data))
        numbers = self.random.standard_cauchy((_ROWS, *width.shape)).clip(-_MOST, _MOST)
        rows = np.zeros((_ROWS * len(GPU_RULES), *width.shape))
        rows[rule * _ROWS : (rule + 1) * _ROWS] = numbers * np.where(np.isfinite(width), width, 0.0)
        shadow.rows = weighted([(shadow.rows, 1.0), (rows, 1.0)], width.shape)


def architecture_of(gpu: str) -> str:
    """Return the architecture of a GPU; its arithmetic must be known.

    Raises:
        UsageError: There is no such GPU, or its arithmetic is not known.
    """
    target = read_gpu(gpu).target
    if target.backend != "cuda":
        raise UsageError(
            f"the arithmetic of `{gpu}` is not described; ranges of results are known for NVIDIA "
            "GPUs only"
        )
    return target.name


def range_of(
    shadow: StorageShadow, launch: int, gpu: str, index: Callable[[int], str]
) -> GpuRange | None:
    """Return what a GPU may compute for an output; None if the launch has stored no floats to it.

    Args:
        shadow: Shadow of a storage, which a `GpuFollower` has written.
        launch: Number of the launch.
        gpu: Name of the GPU.
        index: Returns the index of an element of the storage as text.
    """
    type_limits = limits(shadow.dtype)
    own = np.flatnonzero(shadow.launch[: shadow.count] == launch)
    if type_limits is None or not own.size:
        return None
    eps, tiny = type_limits
    stored = shadow.actual()[own].astype(np.float64)
    widths = np.zeros((len(GPU_RULES), len(own)))
    if len(shadow.rows):
        rows = shadow.rows[:, own].reshape(len(GPU_RULES), _ROWS, -1)
        widths = geometric_mean(np.swapaxes(rows, 0, 1))
    is_number = np.isfinite(stored)
    widths = np.where(is_number, widths, 0.0)
    unit = eps * np.maximum(np.where(is_number, np.abs(stored), 0.0), tiny)
    width = widths.sum(axis=0)
    # The GPU also rounds its results to the type of the output.
    width = np.where(width > 0, width + unit / 2, 0.0)
    lane = int((width / unit).argmax())
    parts = widths[:, lane].tolist()
    shares = [
        (rule, part / sum(parts)) for rule, part in zip(GPU_RULES, parts, strict=True) if part
    ]
    return GpuRange(
        gpu=gpu,
        ulps=float(width[lane] / unit[lane]),
        index=index(int(shadow.elements[own[lane]])),
        low=float(stored[lane] - width[lane]),
        high=float(stored[lane] + width[lane]),
        elements=len(own),
        equal=int((width == 0).sum()),
        shares=tuple(sorted(shares, key=lambda entry: -entry[1])),
    )


# ---- bounds of operations


def _fused(arguments: Sequence[Any], result: Handle) -> Any:
    """Return the rounding errors that depend on whether products are fused with a sum."""
    products = [a for a in arguments if isinstance(a, Handle) and a.factors is not None]
    spacing = _spacing(result) / 2
    return sum((spacing * np.abs(as_exact(product.data)) for product in products), 0.0)


def _spacing(handle: Handle) -> float:
    """Return the relative spacing of the type of a value."""
    type_limits = limits(handle.data.dtype)
    return precision(handle.data.dtype) if type_limits is None else type_limits[0]


def _function(f: GpuFollower, operation: str, arguments: Sequence[Any], result: Handle) -> Any:
    """Return the largest error of an approximate function."""
    name = operation
    if operation == "extern_elementwise":
        name = functions.library_name(str(arguments[2]))
        if functions.is_rounding(name) or str(arguments[2]).startswith("__nv_f"):
            return None
    is_double = result.element.text == "f64"
    if name not in _ULPS or (is_double and name in ("fdiv", "approx_divf", "sqrt")):
        return None
    size = np.abs(as_exact(result.data))
    ulps: Any = _ULPS[name]
    if operation == "exp" and not is_double:
        ulps = ulps + _EXP_SLOPE * np.abs(as_exact(arguments[0].data))
    bound = ulps * _spacing(result) * size
    # Subnormal numbers may be flushed to zero.
    return np.where(size < _SMALLEST_NORMAL, np.maximum(bound, size), bound)


def _depth(shape: Sequence[int], axis: int) -> int:
    """Return the largest number of additions that an element of a sum passes through.

    A thread adds its own elements, then the threads of a warp add theirs in pairs, and then the
    warps. Only for a tile with one axis is it certain that all threads of a warp have elements.
    """
    count = shape[axis]
    if len(shape) > 1 or count <= _THREADS:
        return max(count - 1, 0)
    return math.ceil(count / _THREADS) - 1 + _STEPS


def _sum(f: GpuFollower, operation: str, arguments: Sequence[Any], result: Handle) -> Any:
    """Return the rounding errors that a reduction or scan may have in a different order."""
    handles, axis, function = arguments[:3]
    value = handles[0]
    name = getattr(function, "__name__", "")
    if not is_float(value) or name != "_sum_combine":
        return None
    size = np.abs(as_exact(value.data))
    if operation == "reduce":
        size = size.sum(axis)
    elif arguments[3]:
        size = np.flip(np.cumsum(np.flip(size, axis), axis), axis)
    else:
        size = np.cumsum(size, axis)
    return _depth(value.data.shape, axis) * _spacing(result) / 2 * size


def _dot(f: GpuFollower, operation: str, arguments: Sequence[Any], result: Handle) -> Any:
    """Return the largest difference between the sums of tensor cores and those of the engine."""
    a, b, c = arguments[:3]
    if a.element.text == "f64" or not is_float(a):
        return None
    requested = str(arguments[3]).rpartition(".")[2] if len(arguments) > 3 else ""
    count, at_once = a.data.shape[-1], _AT_ONCE[a.element.size]
    products = np.abs(as_exact(a.data)) @ np.abs(as_exact(b.data))
    size = products + np.abs(as_exact(c.data))
    steps = math.ceil(count / at_once)
    if a.element.size == 1 and f.architecture in _CAPABILITIES_FP8:
        relative = steps * _CUT_FP8
    elif a.element.text == "f32" and requested.upper() == "IEEE":
        relative = count * precision(result.data.dtype) / 2
    else:
        relative = steps * (_CUT_SUM + (at_once + 1) * _CUT_TERMS)
    if result.element.size == 2:
        relative += steps * _spacing(result) / 2
    bound = relative * size
    if a.element.text == "f32" and dot_mode(active_run()) == "exact":
        bound = bound + _OPERANDS.get(requested, 0.0) * products
    return bound


_Bound = Callable[[GpuFollower, str, Sequence[Any], Handle], Any]


def _bounds() -> Iterator[tuple[str, tuple[int, _Bound]]]:
    for name in ("extern_elementwise", *_ULPS):
        yield name, (_FUNCTIONS, _function)
    for name in ("reduce", "scan"):
        yield name, (_ORDER, _sum)
    yield "dot", (_PRODUCTS, _dot)


#: Operations whose results a GPU computes differently: the rule, and the largest difference.
_BOUNDS: dict[str, tuple[int, _Bound]] = dict(_bounds())
#: Operations with several results, of which only the first one is followed.
_SEVERAL = ("create_reduce", "create_scan")
