"""Functions of torch for fake tensors: factories, and functions that take tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ttools.ir.expr import Expr, as_expr
from ttools.prove.host.shapes import flat, keeps_order, like_strides
from ttools.prove.host.symbolic_numbers import NotModelledError, cdiv, expr_of, symbolic_int
from ttools.prove.host.tensors import (
    FACTORIES,
    FUNCTIONS,
    INDEX,
    FakeTensor,
    constant_content,
    joined_content,
    make,
    where,
    written_to,
)


def _shape(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    keeps_order(kwargs.get("memory_format"))
    return flat(args) if args else tuple(kwargs["size"])


def _dtype(kwargs: dict[str, Any]) -> torch.dtype:
    return kwargs.get("dtype") or torch.get_default_dtype()


def _filled(number: int) -> Callable[..., FakeTensor]:
    def fill(*args: Any, **kwargs: Any) -> FakeTensor:
        dtype = _dtype(kwargs)
        content, value = constant_content(number, dtype)
        return make(_shape(args, kwargs), dtype, content=content, value=value)

    return fill


def _empty(*args: Any, **kwargs: Any) -> FakeTensor:
    return make(_shape(args, kwargs), _dtype(kwargs))


def _random(*args: Any, **kwargs: Any) -> FakeTensor:
    return make(_shape(args, kwargs), _dtype(kwargs), random=True)


def _full(size: Any, fill_value: Any, **kwargs: Any) -> FakeTensor:
    dtype = kwargs.get("dtype")
    if dtype is None:
        is_float = isinstance(fill_value, float)
        dtype = torch.get_default_dtype() if is_float else torch.int64
        dtype = torch.bool if isinstance(fill_value, bool) else dtype
    content, value = constant_content(fill_value, dtype)
    return make(flat((size,)), dtype, content=content, value=value)


def _arange(*args: Any, start: Any = 0, end: Any = None, step: Any = 1, **kwargs: Any) -> Any:
    if len(args) == 1:
        (end,) = args
    elif args:
        start, end, *rest = args
        step = rest[0] if rest else step
    dtype = kwargs.get("dtype")
    if any(isinstance(number, float) for number in (start, end, step)):
        raise NotModelledError("torch.arange of floats")
    if step == 0:
        raise RuntimeError("step must be nonzero")
    length = _steps(end - start, step) if step > 0 else _steps(start - end, -step)
    content = expr_of(start) + expr_of(step) * as_expr(INDEX)
    kind = dtype or torch.int64
    integers = None if kind.is_floating_point else content
    return make((length,), kind, content=integers, random=kind.is_floating_point)


def _steps(span: Any, step: Any) -> Any:
    """Return a span divided by a positive step, rounded up."""
    quotient, rest = expr_of(span).divided(expr_of(step))
    return cdiv(span, step) if rest.terms else symbolic_int(quotient)


def _randint(*args: Any, **kwargs: Any) -> FakeTensor:
    size = kwargs.get("size", args[-1])
    return make(tuple(size), kwargs.get("dtype") or torch.int64)


def _randperm(n: Any, **kwargs: Any) -> FakeTensor:
    return make((n,), kwargs.get("dtype") or torch.int64)


def _tensor(data: Any, **kwargs: Any) -> FakeTensor:
    shape: list[int] = []
    first = data
    while isinstance(first, (list, tuple)):
        shape.append(len(first))
        first = first[0] if first else 0
    is_float = isinstance(first, float)
    otherwise = torch.bool if type(first) is bool else torch.int64
    dtype = kwargs.get("dtype") or (torch.get_default_dtype() if is_float else otherwise)
    if not shape and not is_float:
        content, value = constant_content(first, dtype)
        return make((), dtype, content=content, value=value)
    is_row = len(shape) == 1 and not dtype.is_floating_point
    return make(shape, dtype, content=_evenly(data) if is_row else None)


def _evenly(numbers: Sequence[Any]) -> Expr | None:
    """Return the expression for a list of integers; None if they are not evenly spaced."""
    if not numbers or not all(isinstance(n, int) for n in numbers):
        return None
    first, *others = map(expr_of, numbers)
    step = others[0] - first if others else as_expr(0)
    if any(n != first + step * i for i, n in enumerate(others, 1)):
        return None
    return first + step * as_expr(INDEX)


def _empty_strided(size: Any, stride: Any, **kwargs: Any) -> FakeTensor:
    return make(tuple(size), _dtype(kwargs), strides=tuple(stride))


FACTORIES.update(
    {
        "zeros": _filled(0),
        "ones": _filled(1),
        "empty": _empty,
        "rand": _random,
        "randn": _random,
        "full": _full,
        "arange": _arange,
        "randint": _randint,
        "randperm": _randperm,
        "tensor": _tensor,
        "empty_strided": _empty_strided,
    }
)


def _like(make_one: Callable[..., Any]) -> Callable[..., Any]:
    def like(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        keeps = keeps_order(kwargs.pop("memory_format", None))
        kwargs["dtype"] = kwargs.get("dtype") or tensor.dtype
        tensor_like = make_one(tuple(tensor.shape), *args, **kwargs)
        if not keeps:
            return tensor_like
        return tensor_like.as_strided(tensor.shape, like_strides(tensor.shape, tensor.stride()))

    return like


LIKE = {
    f"{name}_like": _like(FACTORIES[name])
    for name in ("zeros", "ones", "empty", "rand", "randn", "full")
}


def _randint_like(tensor: Any, *_: Any, dtype: Any = None, **__: Any) -> FakeTensor:
    strides = like_strides(tensor.shape, tensor.stride())
    return make(tensor.shape, dtype or tensor.dtype, strides=strides)


def _cat(tensors: Any, dim: int = 0, **_: Any) -> FakeTensor:
    first = tensors[0]
    shape = list(first.shape)
    shape[dim] = sum((part.shape[dim] for part in tensors[1:]), first.shape[dim])
    dtype = functools.reduce(torch.promote_types, [part.dtype for part in tensors])
    content = None
    if len(tensors) == 2 and first.dim() == 1:
        content = joined_content(first, tensors[1], dtype)
    return make(shape, dtype, content=content, random=any(part.storage.random for part in tensors))


def _stack(tensors: Any, dim: int = 0, **_: Any) -> FakeTensor:
    shape = list(tensors[0].shape)
    shape.insert(dim % (len(shape) + 1), len(tensors))
    return make(shape, tensors[0].dtype)


def _pad(tensor: Any, pad: Any, mode: str = "constant", value: Any = None) -> FakeTensor:
    """Return a tensor padded with one value.

    Args:
        pad: Number of elements to add before and after each axis, beginning with the last axis.
    """
    if mode != "constant" or any(width < 0 for width in pad):
        raise NotModelledError("`torch.nn.functional.pad` with these arguments")
    shape = list(tensor.shape)
    for axis, (before, after) in enumerate(zip(pad[::2], pad[1::2], strict=True), 1):
        shape[-axis] = before + shape[-axis] + after
    padded = make(shape, tensor.dtype)
    if tensor.dim() == 1 and isinstance(pad[1], int) and pad[1] == 0:
        first = _full((pad[0],), value or 0, dtype=tensor.dtype)
        padded.storage.content = joined_content(first, tensor, tensor.dtype)
    return padded


FUNCTIONS.update(
    {
        **LIKE,
        "pad": _pad,
        "randint_like": _randint_like,
        "cat": _cat,
        "concat": _cat,
        "stack": _stack,
    }
)


def _may_write(make_one: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return make_one(*args, **kwargs)
        return written_to(make_one, *args, out=out, **kwargs)

    return call


def has_fake(values: Iterable[Any]) -> bool:
    """Return whether one of the values is a fake tensor, or a list or tuple with one."""
    return any(has_fake(v) if type(v) in (list, tuple) else type(v) is FakeTensor for v in values)


def factory_replacements() -> dict[str, Callable[..., Any]]:
    """Return the functions that replace torch's factories, by their names in `torch`."""
    return {name: _may_write(make_one) for name, make_one in FACTORIES.items()} | {"where": where}
