"""Functions of fake tensors of whose results only shape and type are known.

Names are torch's, as methods and as functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ttools.prove.host.paths import NotModelledError, expr_of
from ttools.prove.host.shapes import contiguous_strides, like_strides

#: Functions of torch that make tensors, which `factories.py` registers.
FACTORIES: dict[str, Callable[..., Any]] = {}
#: Other functions of torch that take tensors and are no methods, which it registers as well.
FUNCTIONS: dict[str, Callable[..., Any]] = {}

#: Of one tensor; of integers they give integers.
_UNARY = ("abs", "neg", "relu", "square", "sign", "clamp", "clamp_min", "clamp_max")
_ROUNDING = ("floor", "ceil", "round", "trunc")
#: Of one tensor, floats in any case.
_FLOAT = (
    *("sqrt", "rsqrt", "exp", "exp2", "log", "log2", "sin", "cos", "tan", "tanh", "sigmoid"),
    *("reciprocal", "softmax", "log_softmax", "erf"),
)
_BINARY = ("add", "sub", "mul", "maximum", "minimum", "pow", "remainder")
_DIVIDING = ("div", "true_divide")
_LOGIC = (
    *("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not"),
    *("isnan", "isinf", "isfinite"),
)
_REDUCING = ("sum", "mean", "amax", "amin", "prod", "any", "all", "norm", "std", "var")
_IN_PLACE = (
    *("add_", "sub_", "mul_", "div_", "clamp_", "clamp_min_", "clamp_max_", "relu_", "abs_"),
    *("exp_", "log_", "sqrt_", "rsqrt_", "neg_", "pow_", "sigmoid_", "tanh_", "floor_", "ceil_"),
    *("round_", "random_", "bernoulli_", "exponential_", "masked_fill_"),
)


def broadcast(shapes: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    """The shape that shapes are broadcast to.

    Raises:
        RuntimeError: they do not fit.
    """
    found: list[Any] = [1] * max(map(len, shapes))
    for shape in shapes:
        for n, extent in enumerate(reversed(shape), 1):
            if expr_of(found[-n]) == expr_of(extent) or extent == 1:
                continue
            if found[-n] != 1:
                raise RuntimeError("the sizes of tensors do not match")
            found[-n] = extent
    return tuple(found)


def _as_float(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


def _new(args: Sequence[Any], shape: Sequence[Any], dtype: torch.dtype) -> Any:
    """Return a new tensor, as the first tensor among the arguments makes it."""
    first = next(a for a in args if isinstance(a, torch.Tensor))
    return first.new_empty(shape, dtype=dtype)


def _operands(args: Sequence[Any]) -> tuple[tuple[Any, ...], torch.dtype]:
    """Shape and type of an elementwise result."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    dtype = tensors[0].dtype
    for each in tensors[1:]:
        if 0 in (each.dim(), tensors[0].dim()) and each.dtype != dtype:
            raise NotModelledError("the type of a result with a tensor of no dimensions")
        dtype = torch.promote_types(dtype, each.dtype)
    if any(isinstance(a, float) for a in args):
        dtype = _as_float(dtype)
    for each in tensors:
        if each.dim() > 1:
            in_order = like_strides(each.shape, each.stride())
            if list(map(expr_of, in_order)) != list(map(expr_of, contiguous_strides(each.shape))):
                raise NotModelledError("an operator on a tensor whose axes are in another order")
    return broadcast([t.shape for t in tensors]), dtype


def _elementwise(kind: Callable[[torch.dtype], torch.dtype]) -> Callable[..., Any]:
    def function(*args: Any, dtype: torch.dtype | None = None, **kwargs: Any) -> Any:
        if "out" in kwargs:
            raise NotModelledError("an operator with `out=`")
        operands = (*args, *kwargs.values())
        shape, joint = _operands(operands)
        return _new(operands, shape, dtype or kind(joint))

    return function


def _reduction(name: str) -> Callable[..., Any]:
    def function(tensor: Any, *args: Any, **kwargs: Any) -> Any:
        if name == "norm" and args:
            kwargs["p"], *rest = args
            args = tuple(rest)
        axes = kwargs.get("dim", kwargs.get("axis", args[0] if args else None))
        if isinstance(axes, bool) or len(args) > 2 or "out" in kwargs:
            raise NotModelledError(f"`Tensor.{name}` with these arguments")
        keeps = kwargs.get("keepdim", args[1] if len(args) > 1 else False)
        rank = tensor.dim()
        listed = axes if isinstance(axes, (tuple, list)) else [axes]
        gone = set(range(rank)) if axes is None else {a % rank for a in listed if a is not None}
        shape = [
            1 if n in gone else e for n, e in enumerate(tensor.shape) if keeps or n not in gone
        ]
        return _new([tensor], shape, kwargs.get("dtype") or _reduced_type(name, tensor.dtype))

    return function


def _reduced_type(name: str, dtype: torch.dtype) -> torch.dtype:
    if name in ("any", "all"):
        return torch.bool
    if name in ("sum", "prod") and not dtype.is_floating_point:
        return torch.int64
    return dtype


def where(condition: Any, *choices: Any, **others: Any) -> Any:
    """`torch.where`, which C code does not ask fake tensors about where a choice is a number."""
    if len(choices) != 2 or others:
        raise NotModelledError("`torch.where` with these arguments")
    tensors = [c for c in choices if isinstance(c, torch.Tensor)]
    if not tensors:
        raise NotModelledError("`torch.where` of two numbers")
    shape = _operands([condition, *tensors])[0]
    return _new(tensors, shape, _operands(choices)[1])


def _in_place(tensor: Any, *_: Any, **__: Any) -> Any:
    tensor.storage.forget()
    return tensor


OPERATORS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys((*_UNARY, *_ROUNDING, *_BINARY), _elementwise(lambda kind: kind)),
    **dict.fromkeys((*_FLOAT, *_DIVIDING), _elementwise(_as_float)),
    **dict.fromkeys(_LOGIC, _elementwise(lambda _: torch.bool)),
    **{name: _reduction(name) for name in _REDUCING},
    **dict.fromkeys(_IN_PLACE, _in_place),
    "where": lambda tensor, condition, other: where(condition, tensor, other),
}
