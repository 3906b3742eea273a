"""Operations that move lanes and compute nothing.

Facts about an operand's elements therefore hold for the result's elements, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ttools.fuzz.facts import either
from ttools.fuzz.operations.table import Write, operation
from ttools.fuzz.program import Expr, Shape, Type


def _write_permute(expr: Expr, args: Sequence[str]) -> str:
    axes, form = expr.attrs["axes"], expr.attrs["form"]
    if form == "T":
        return f"{args[0]}.T"
    return f"tl.{form}({args[0]}, {', '.join(map(str, axes))})"


def _write_expand(expr: Expr, args: Sequence[str]) -> str:
    axis, rank = expr.attrs["axis"], len(expr.type.shape)
    if expr.attrs["form"] == "expand_dims":
        return f"tl.expand_dims({args[0]}, {axis})"
    return f"{args[0]}[{', '.join('None' if i == axis else ':' for i in range(rank))}]"


def _write_along(expr: Expr, args: Sequence[str]) -> str:
    axis, rank = expr.attrs["axis"], len(expr.type.shape)
    return f"{args[0]}[{', '.join(':' if i == axis else 'None' for i in range(rank))}]"


_FORMS: dict[str, tuple[str | Write, Callable[..., Any]]] = {
    "flip": ("tl.flip({0}, {axis})", lambda e, x: np.flip(x, e.attrs["axis"])),
    "permute": (_write_permute, lambda e, x: np.transpose(x, e.attrs["axes"])),
    "reshape": ("tl.{form}({0}, {shape})", lambda e, x: x.reshape(e.type.shape)),
    "item": ("{0}.item()", lambda e, x: x.reshape(())),
    "ravel": ("tl.ravel({0})", lambda e, x: x.reshape(-1)),
    "expand_dims": (_write_expand, lambda e, x: np.expand_dims(x, e.attrs["axis"])),
    "along": (_write_along, lambda e, x: x.reshape(e.type.shape)),
    "broadcast_to": (
        "tl.broadcast_to({0}, {shape})",
        lambda e, x: np.broadcast_to(x, e.type.shape),
    ),
    "join": ("tl.join({0}, {1})", lambda e, *ab: np.stack(np.broadcast_arrays(*ab), axis=-1)),
    "interleave": (
        "tl.interleave({0}, {1})",
        lambda e, *ab: np.stack(ab, axis=-1).reshape(e.type.shape),
    ),
    "split": ("tl.split({0})", lambda e, x: (x[..., 0], x[..., 1])),
    "cat": ("tl.cat({0}, {1}, can_reorder=True)", lambda e, *ab: np.concatenate(ab)),
    "cat_along": (
        "tl.cat({0}, {1}, dim={axis})",
        lambda e, *ab: np.concatenate(ab, axis=e.attrs["axis"]),
    ),
    "gather": (
        "tl.gather({0}, {1}, {axis})",
        lambda e, x, at: np.take_along_axis(x, at.astype(np.int64), e.attrs["axis"]),
    ),
    "pair": ("{0}, {1}", lambda e, a, b: (a, b)),
}
for _name, (_text, _move) in _FORMS.items():
    operation(_name, _text)(lambda expr, args, frame, f=_move: f(expr, *args))  # type: ignore[misc]


def flip(x: Expr, axis: int) -> Expr:
    """Return an expression for `tl.flip` along an axis."""
    return Expr("flip", x.type, (x,), {"axis": axis}, x.fact)


def permute(x: Expr, axes: Sequence[int], form: str = "permute") -> Expr:
    """Return an expression for `tl.permute`, `tl.trans` or `.T`."""
    shape = tuple(x.type.shape[axis] for axis in axes)
    attrs = {"axes": tuple(axes), "form": form}
    return Expr("permute", Type(x.type.element, shape, x.type.buffer), (x,), attrs, x.fact)


def reshape(x: Expr, shape: Shape, form: str = "reshape") -> Expr:
    """Return an expression for `tl.reshape`, which keeps the row-major order."""
    return Expr("reshape", Type(x.type.element, tuple(shape)), (x,), {"form": form}, x.fact)


def item(x: Expr) -> Expr:
    """Return the number in a tile of one element."""
    return Expr("item", Type(x.type.element), (x,), fact=x.fact)


def ravel(x: Expr) -> Expr:
    """Return an expression for `tl.ravel`."""
    return Expr("ravel", Type(x.type.element, (x.type.size,)), (x,), {}, x.fact)


def expand_dims(x: Expr, axis: int, form: str = "index") -> Expr:
    """Insert an axis of extent 1, as `x[:, None]` or `tl.expand_dims`."""
    shape = (*x.type.shape[:axis], 1, *x.type.shape[axis:])
    attrs = {"axis": axis, "form": form}
    return Expr("expand_dims", Type(x.type.element, shape, x.type.buffer), (x,), attrs, x.fact)


def along(x: Expr, axis: int, rank: int) -> Expr:
    """Reshape a vector to `rank` axes; all but one have extent 1, as in `x[None, :, None]`."""
    if rank == 1:
        return x
    shape = tuple(x.type.shape[0] if i == axis else 1 for i in range(rank))
    return Expr("along", Type(x.type.element, shape), (x,), {"axis": axis}, x.fact)


def broadcast_to(x: Expr, shape: Shape) -> Expr:
    """Return an expression for `tl.broadcast_to`."""
    return Expr("broadcast_to", Type(x.type.element, tuple(shape)), (x,), {}, x.fact)


def join(a: Expr, b: Expr) -> Expr:
    """Return an expression for `tl.join` of two values of one type."""
    shape = (*a.type.shape, 2)
    return Expr("join", Type(a.type.element, shape), (a, b), {}, either(a.fact, b.fact))


def interleave(a: Expr, b: Expr) -> Expr:
    """Return an expression for `tl.interleave` of two values of one type."""
    shape = (*a.type.shape[:-1], 2 * a.type.shape[-1]) if a.type.shape else (2,)
    return Expr("interleave", Type(a.type.element, shape), (a, b), {}, either(a.fact, b.fact))


def split(x: Expr) -> Expr:
    """Return a `tl.split` expression, with two results, for a value whose last extent is 2."""
    half = Type(x.type.element, x.type.shape[:-1])
    return Expr("split", half, (x,), {}, x.fact, ((half, x.fact),))


def cat(a: Expr, b: Expr) -> Expr:
    """Return a `tl.cat` expression in unspecified order, for uses that do not depend on it."""
    shape = (a.type.shape[0] + b.type.shape[0],)
    return Expr("cat", Type(a.type.element, shape), (a, b), {}, either(a.fact, b.fact))


def cat_along(a: Expr, b: Expr, axis: int) -> Expr:
    """Return an expression for `tl.cat` along an axis, in order (Triton 3.7 and later)."""
    shape = list(a.type.shape)
    shape[axis] *= 2
    attrs = {"axis": axis}
    element = Type(a.type.element, tuple(shape))
    return Expr("cat_along", element, (a, b), attrs, either(a.fact, b.fact))


def gather(x: Expr, index: Expr, axis: int) -> Expr:
    """Return a `tl.gather` expression; the index has the shape of `x` except along `axis`."""
    attrs = {"axis": axis}
    return Expr("gather", Type(x.type.element, index.type.shape), (x, index), attrs, x.fact)


def pair(a: Expr, b: Expr) -> Expr:
    """Return two values as one expression, for a tuple assignment."""
    return Expr("pair", a.type, (a, b), {}, a.fact, ((b.type, b.fact),))
