"""Tracking of the provenance of tensors' extents while a script runs.

When the script reads the shape of a tensor, it receives traced integers. A tensor that is created
with such integers, or from other tensors, keeps the provenance of its extents. This module also
contains the replacements of functions of torch, Triton and Python that this needs.
"""

from __future__ import annotations

import builtins
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial, wraps
from types import FunctionType
from typing import Any

import torch
import triton
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils.weak import WeakTensorKeyDictionary

from ttools.core.imports import after_import
from ttools.core.patches import Patches
from ttools.ir.expr import Expr, as_expr, floordiv, product
from ttools.prove.trace.traced import (
    Provenance,
    Trace,
    TracedInt,
    divided,
    extent,
    extremum,
    limited,
    next_power,
    provenance,
    runs_of,
    stripped,
    traced_value,
)

Extents = tuple[Provenance, ...]


class ExtentTracking(TorchFunctionMode):
    """Records the provenance of the extents of tensors.

    An extent without a recorded provenance comes from the script itself, and becomes a symbol.

    Attributes:
        trace: Creates the traced integers.
        handed_out: True once the script has received a traced integer.
    """

    def __init__(self) -> None:
        super().__init__()
        self._known: Any = WeakTensorKeyDictionary()
        self._paused = 0
        self.trace = Trace()
        self.handed_out = False

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.compiler.is_compiling():  # code that torch compiles gets plain integers
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        if self._paused:
            return result
        if func in _READ and isinstance(args[0] if args else None, torch.Tensor):
            self.handed_out = True
            return _READ[func](self, result, *args, **kwargs)
        self._take(func, result, args, kwargs)
        return result

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Return plain integers and record nothing inside the `with` block."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    @property
    def _is_on(self) -> bool:
        modes: list[Any] = _get_current_function_mode_stack()  # type: ignore[no-untyped-call]
        return any(mode is self for mode in modes)

    def in_backward(self, method: Any) -> Any:
        """Wrap a backward pass so that it runs in this mode.

        torch disables the mode while one of its handlers runs, and therefore also during a backward
        pass that a handler starts.
        """

        def run(*args: Any, **kwargs: Any) -> Any:
            with nullcontext() if self._is_on else self:
                return method(*args, **kwargs)

        return run

    def extents(self, tensor: Any) -> Extents:
        """Return the provenance of each extent; None for an extent that comes from the script."""
        shape, provenances = self._known.get(tensor, (None, ()))
        if shape != tuple(tensor.shape):
            return (None,) * int(tensor.dim())
        return tuple(provenances)

    def _provenances(self, tensor: Any) -> tuple[Expr, ...]:
        with self.paused():
            recorded = self.extents(tensor)
            return tuple(n or extent(e) for n, e in zip(recorded, tensor.shape, strict=True))

    # --- attributes that a script reads --------------------------------------------------------

    def _shape(self, result: Any, tensor: Any, dim: int | None = None) -> Any:
        provenances = self._provenances(tensor)
        if isinstance(result, int) and dim is not None:
            return self.trace.integer(result, provenances[dim])
        return torch.Size(map(self.trace.integer, result, provenances))

    def _numel(self, result: int, tensor: Any) -> int:
        return self.trace.integer(result, product(self._provenances(tensor)))

    def _length(self, result: int, tensor: Any) -> int:
        return self.trace.take(result, self._provenances(tensor)[0])

    def _stride(self, result: Any, tensor: Any, dim: int | None = None) -> Any:
        provenances = self._provenances(tensor)
        with self.paused():
            strides = stride_provenances(tuple(tensor.shape), tensor.stride(), provenances)
        if isinstance(result, int) and dim is not None:
            return self.trace.integer(result, strides[dim])
        return tuple(map(self.trace.integer, result, strides))

    # --- tensors that a script makes ----------------------------------------------------------

    def _take(self, func: Any, result: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        """Record the provenance of the extents of new tensors."""
        made = [value for value in _flat(result, 2) if isinstance(value, torch.Tensor)]
        if not made:
            return
        arguments = list(_flat((args, tuple(kwargs.values())), 4))
        tensors = [value for value in arguments if isinstance(value, torch.Tensor)]
        with self.paused():
            for tensor in made:
                if any(tensor is value for value in tensors):
                    continue
                if func is _GETITEM:
                    provenances = self._indexed(args[0], args[1], tensor)
                else:
                    provenances = self._made(tensor, arguments, tensors)
                if any(provenances):
                    self._known[tensor] = tuple(tensor.shape), provenances

    def _made(self, tensor: Any, arguments: Sequence[Any], tensors: Sequence[Any]) -> Extents:
        shape = tuple(tensor.shape)
        sources = [(tuple(t.shape), self._provenances(t)) for t in tensors]
        extents: list[Provenance] = [_inherited(n, axis, shape, sources)
                                    for axis, n in enumerate(shape)]  # fmt: skip
        if any(type(argument) is TracedInt for argument in arguments):
            named = _as_given(
                shape, [argument for argument in arguments if isinstance(argument, int)]
            )
            if named is not None:
                rest = limited(product(n for _, provenances in sources[:1] for n in provenances))
                for axis, argument in enumerate(named):
                    if type(argument) is TracedInt:
                        extents[axis] = argument.expr
                    elif argument >= 0 and extents[axis] is None:
                        extents[axis] = as_expr(argument)
                    elif argument < 0 and extents[axis] is None and rest is not None:
                        extents[axis] = _quotient(rest, [n for n in named if n is not argument])
        return _kept(shape, extents)

    def _indexed(self, tensor: Any, index: Any, result: Any) -> Extents:
        """Return the provenance of the extents of `result`, the result of indexing `tensor`."""
        index = index if type(index) is tuple else (index,)
        taken = sum(type(i) in (int, TracedInt, slice) for i in index)
        sources = [(tuple(tensor.shape), self._provenances(tensor))]
        if any(
            i is not None and i is not ... and type(i) not in (int, TracedInt, slice) for i in index
        ):
            return self._made(result, (), (tensor,))
        shape, provenances = sources[0]
        axis = 0
        extents: list[Provenance] = []
        for item in (*index, *(() if ... in index else (...,))):
            if item is None:
                extents.append(as_expr(1))
            elif item is ...:
                extents += provenances[axis : axis + len(shape) - taken]
                axis += len(shape) - taken
            else:
                if type(item) is slice:
                    extents.append(_sliced(item, provenances[axis], shape[axis]))
                axis += 1
        return _kept(tuple(result.shape), extents)


def _sliced(part: slice, whole: Expr, length: int) -> Provenance:
    """Return the provenance of the extent of a slice."""
    begin, end, step = part.indices(length)
    if step != 1:
        return None
    if (begin, end) == (0, length) and type(part.stop) is not TracedInt:
        return whole
    stop = provenance(part.stop) if part.stop is not None else whole
    if part.stop is not None and part.stop < 0:
        stop = None if stop is None else whole + stop
    elif part.stop is not None and part.stop > length:
        stop = whole
    if (part.start or 0) < 0:
        return None
    start = provenance(part.start or 0)
    if stop is None or start is None:
        return None
    # An extent that is a number in the script itself has no provenance.
    return limited(stop - start) if (stop - start).constant is None else None


def _kept(shape: tuple[int, ...], provenances: Sequence[Provenance]) -> Extents:
    """Return provenances, with None for each whose value differs from the tensor's extent."""
    if len(provenances) != len(shape):
        return (None,) * len(shape)
    return tuple(
        note if note is not None and traced_value(note) == e else None
        for note, e in zip(provenances, shape, strict=True)
    )


def _quotient(whole: Expr, others: Sequence[int]) -> Provenance:
    """Return the provenance of an extent that torch computes from the number of elements."""
    factors = [provenance(n) for n in others]
    exprs = [p for p in factors if p is not None]
    return limited(divided(floordiv, whole, product(exprs))) if exprs == factors else None


def _as_given(shape: tuple[int, ...], numbers: list[int]) -> Sequence[int] | None:
    """Return the arguments of a call that are equal to a shape, where -1 stands for any extent."""
    for start in range(len(numbers) - len(shape) + 1):
        part = numbers[start : start + len(shape)]
        if all(n in (e, -1) for n, e in zip(part, shape, strict=True)):
            return part
    return None


def _inherited(
    length: int,
    axis: int,
    shape: tuple[int, ...],
    sources: Sequence[tuple[tuple[int, ...], tuple[Expr, ...]]],
) -> Provenance:
    """Return the provenance of an axis, taken from the tensors that a tensor was made from."""
    for other, provenances in sources:
        if len(other) == len(shape) and other[axis] == length > 1:
            return provenances[axis]
    among = {
        n
        for other, provenances in sources
        for e, n in zip(other, provenances, strict=True)
        if e == length
    }
    if not among:
        for other, provenances in sources:
            for lengths, part in zip(runs_of(other), runs_of(provenances), strict=True):
                if math.prod(lengths) == length and len(part) > 1:
                    merged = limited(product(part))
                    if merged is not None:
                        among.add(merged)
    return among.pop() if len(among) == 1 and length > 1 else None


def stride_provenances(
    shape: Sequence[int], strides: Sequence[int], provenances: Sequence[Expr]
) -> list[Provenance]:
    """Return the provenance of strides; each is the product of the extents of the axes inside it.

    If there is a gap between elements, the stride of its axis is constant, and the strides of the
    axes outside it are multiples of that stride.
    """
    result: list[Provenance] = [None] * len(shape)
    step, note = 1, as_expr(1)
    axes = sorted(range(len(shape)), key=lambda n: (strides[n], shape[n] != 1, -n))
    for axis in axes:
        if strides[axis] == 0:
            continue
        if strides[axis] != step:
            if shape[axis] == 1:
                continue
            step, note = strides[axis], as_expr(strides[axis])
        result[axis] = note
        longer = limited(note * provenances[axis])
        step, note = step * shape[axis], longer if longer is not None else as_expr(step)
    return result


def _flat(value: Any, depth: int) -> Iterator[Any]:
    if depth and isinstance(value, (tuple, list)):
        for item in value[:64]:
            yield from _flat(item, depth - 1)
    else:
        yield value


@contextmanager
def tracking_extents(mode: ExtentTracking) -> Iterator[None]:
    """Track extents inside the `with` block, for tensors that this thread uses."""
    with Patches() as patches:
        for name in _EXTREMA:
            patches.wrap(builtins, name, partial(extremum, name))
        owner, attribute = triton.next_power_of_2, "fn"
        if not hasattr(owner, attribute):
            owner, attribute = triton, "next_power_of_2"
        patches.wrap(owner, attribute, next_power)
        for module in (torch.autograd, torch.autograd.graph):
            patches.wrap(module, "_engine_run_backward", mode.in_backward)
        patches.callback(after_import(_COMPILED, lambda _: _give_plain(patches)))
        with mode:
            yield


def _give_plain(patches: Patches) -> None:
    """Make functions returned by `torch.compile` receive plain integers."""
    owner = sys.modules[_COMPILED]._TorchDynamoContext

    def make(method: Any) -> Any:
        def compiled(context: Any, function: Any) -> Any:
            made = method(context, function)
            return _called_plain(made) if isinstance(made, FunctionType) else made

        return compiled

    patches.wrap(owner, "__call__", make)


def _called_plain(function: Any) -> Any:
    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        plain = map(stripped, args), {name: stripped(value) for name, value in kwargs.items()}
        with Patches() as patches:
            for name, original in _EXTREMA.items():
                patches.replace(builtins, name, original)
            return function(*plain[0], **plain[1])

    return called


#: Python's own `min` and `max`, which torch recognises in code that it compiles.
_EXTREMA = {"min": min, "max": max}
#: The module that creates compiled functions, which torch imports when it creates the first one.
_COMPILED = "torch._dynamo.eval_frame"
_GETITEM = torch.Tensor.__getitem__
_READ = {
    torch.Tensor.shape.__get__: ExtentTracking._shape,  # type: ignore[attr-defined]
    torch.Tensor.size: ExtentTracking._shape,
    torch.Tensor.stride: ExtentTracking._stride,
    torch.Tensor.numel: ExtentTracking._numel,
    torch.Tensor.nelement: ExtentTracking._numel,
    torch.numel: ExtentTracking._numel,
    torch.Tensor.__len__: ExtentTracking._length,
}
