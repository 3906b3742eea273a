"""Phantom tensors: shape, strides and type, at most a formula of what they hold, and no memory.

Host code under `--sizes` gets these from torch's factories. What is not modelled raises
`NotModelledError`, so that nothing is claimed of it. Must not know launches.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ttools.interpreter.ir.expr import (
    Expr,
    as_expr,
    floordiv,
    maximum,
    minimum,
    modulo,
    substitute,
)
from ttools.sanitizer.sizes.host.operators import OPERATORS
from ttools.sanitizer.sizes.host.paths import NotModelledError, expr_of
from ttools.sanitizer.sizes.host.shapes import (
    contiguous_strides,
    flat,
    keeps_order,
    like_strides,
    product,
)
from ttools.sanitizer.sizes.host.storage import INDEX, Storage, is_constant, is_uncut
from ttools.sanitizer.sizes.host.views import View


def _by(function: Callable[[Any, Any], Any]) -> Callable[[PhantomTensor, Any], PhantomTensor]:
    return lambda self, other: self._elementwise(other, function)


class PhantomTensor(View):
    """A tensor without memory; host code takes it for a `torch.Tensor`."""

    def reshape(self, *shape: Any) -> PhantomTensor:
        extents = self._resolved(flat(shape))
        found = self._viewed(extents)
        return self.contiguous().view(*extents) if found is None else found

    def flatten(self, start: int = 0, end: int = -1) -> PhantomTensor:
        rank = self.dim()
        start, end = start % rank, end % rank
        merged = product(self._shape[start : end + 1])
        return self.reshape(*self._shape[:start], merged, *self._shape[end + 1 :])

    def ravel(self) -> PhantomTensor:
        return self.flatten()

    # ---- new tensors
    def _whole(self) -> bool:
        """Whether its elements are its storage's, in order."""
        if expr_of(self.offset).constant != 0:
            return False
        return self.is_contiguous() and expr_of(self.numel()) == self.storage.elements

    def new(self, shape: Sequence[Any], dtype: Any = None, **content: Any) -> PhantomTensor:
        return make(shape, dtype or self.dtype, **content)

    def to(
        self,
        *args: Any,
        dtype: Any = None,
        copy: bool = False,
        memory_format: Any = None,
        **_: Any,
    ) -> PhantomTensor:
        if not keeps_order(memory_format):
            return self.to(*args, dtype=dtype, copy=copy).contiguous()
        for each in args:
            if isinstance(each, torch.dtype):
                dtype = each
            elif isinstance(each, torch.Tensor):
                dtype = each.dtype
        if dtype is None or dtype == self.dtype:
            return self.clone() if copy else self
        source = self.storage if self._whole() else None
        content = value = None
        random = source is not None and source.random
        if source is not None and not dtype.is_floating_point:
            content = self._content_in(dtype)
            if content is None and source.value is not None and float(source.value).is_integer():
                content = as_expr(int(source.value))
        elif source is not None:
            value = source.value
            if value is None and source.content is not None and source.content.constant is not None:
                value = float(source.content.constant)
        return self._like(dtype, content=content, value=value, random=random)

    type = to

    def _like(self, dtype: torch.dtype, **content: Any) -> PhantomTensor:
        """A new tensor of its shape, with the same order of axes."""
        found = make(self._shape, dtype, **content)
        found._strides = tuple(like_strides(self._shape, self._strides))
        return found

    def _content_in(self, dtype: torch.dtype) -> Expr | None:
        """The formula of the elements in another type; None where this one may have cut them."""
        content = self.storage.content
        if content is None or dtype.is_floating_point:
            return None
        if torch.bool in (dtype, self.dtype) and dtype != self.dtype:
            constant = content.constant
            return None if constant is None else as_expr(int(constant != 0))
        if dtype.itemsize <= self.dtype.itemsize:
            return content
        return content if is_uncut(content, self.storage.elements, self.dtype) else None

    def contiguous(self, memory_format: Any = torch.contiguous_format) -> PhantomTensor:
        return self if self.is_contiguous(memory_format) else self.clone(memory_format)

    def clone(self, memory_format: Any = None) -> PhantomTensor:
        storage = self.storage
        whole = self._whole()
        content = storage.content if whole or is_constant(storage.content) else None
        found = self._like(self.dtype, content=content, value=storage.value, random=storage.random)
        if not keeps_order(memory_format):
            found._strides = tuple(contiguous_strides(self._shape))
        return found

    def _filled(self, content: Expr | None, value: float | None, random: bool) -> PhantomTensor:
        storage = self.storage
        storage.forget()
        if self._whole():
            storage.content, storage.value, storage.random = content, value, random
        return self

    def zero_(self) -> PhantomTensor:
        return self.fill_(0)

    def fill_(self, value: Any) -> PhantomTensor:
        return self._filled(*constant_content(value, self.dtype), False)

    def normal_(self, *_: Any, **__: Any) -> PhantomTensor:
        return self._filled(None, None, True)

    uniform_ = normal_

    def copy_(self, _: Any, **__: Any) -> PhantomTensor:
        return self._filled(None, None, False)

    def _elementwise(
        self, other: Any, function: Callable[[Expr, Expr], Expr], modular: bool = True
    ) -> PhantomTensor:
        """An elementwise result; its formula where both are integers that are known.

        Args:
            other: a tensor or number.
            function: of the formulas.
            modular: whether wrapped operands give the wrapped result, as in sums and products.
        """
        dtype, theirs = self.dtype, None
        if isinstance(other, torch.Tensor):
            dtype = torch.promote_types(dtype, other.dtype)
            phantom: Any = other
            if tuple(map(expr_of, phantom.shape)) != tuple(map(expr_of, self._shape)):
                return OPERATORS["add"](self, other)  # type: ignore[no-any-return]
            if phantom.dim() > 1 and phantom.stride() != self.stride():
                return OPERATORS["add"](self, other)  # type: ignore[no-any-return]
            theirs = phantom._content_in(dtype) if phantom._whole() else None
        elif isinstance(other, float):
            dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
        else:
            theirs = expr_of(other)
        mine = self._content_in(dtype) if self._whole() else None
        if mine is not None and not (modular or is_uncut(mine, self.storage.elements, dtype)):
            mine = None
        content = None
        if mine is not None and theirs is not None and not dtype.is_floating_point:
            content = function(mine, theirs)
        random = self.storage.random or (
            isinstance(other, torch.Tensor) and getattr(other, "storage").random  # noqa: B009
        )
        return self._like(dtype, content=content, random=random)

    __add__ = __radd__ = _by(operator.add)
    __mul__ = __rmul__ = _by(operator.mul)
    __sub__, __rsub__ = _by(operator.sub), _by(lambda p, q: q - p)

    def __neg__(self) -> PhantomTensor:
        return self * -1

    def _changed(self, other: Any) -> PhantomTensor:
        """An operation in place: the same elements, of which nothing is known any more."""
        self.storage.forget()
        return self

    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ifloordiv__ = __imod__ = _changed
    __iand__ = __ior__ = __ixor__ = __ilshift__ = __irshift__ = __ipow__ = _changed

    def _divided(self, other: Any, function: Callable[[Expr, Expr], Expr]) -> PhantomTensor:
        if isinstance(other, int) and other > 0:
            return self._elementwise(other, function, modular=False)
        return OPERATORS["remainder"](self, other)  # type: ignore[no-any-return]

    def __lshift__(self, other: Any) -> PhantomTensor:
        return self.__mul__(1 << other)

    def __rshift__(self, other: Any) -> PhantomTensor:
        return self._divided(1 << other, floordiv)

    def clamp(self, min: Any = None, max: Any = None) -> PhantomTensor:
        if not (self._whole() and all(e is None or isinstance(e, int) for e in (min, max))):
            return OPERATORS["clamp"](self, min=min, max=max)  # type: ignore[no-any-return]
        found = self
        if min is not None:
            found = found._elementwise(min, maximum, modular=False)
        return found if max is None else found._elementwise(max, minimum, modular=False)

    def repeat(self, *times: Any) -> PhantomTensor:
        counts = flat(times)
        shape = [1] * (len(counts) - self.dim()) + list(self._shape)
        extents = [e * n for e, n in zip(shape, counts, strict=True)]
        content = self.storage.content
        return make(extents, self.dtype, content=content if is_constant(content) else None)

    tile = repeat

    def repeat_interleave(self, times: Any, dim: int | None = None, **_: Any) -> PhantomTensor:
        if not isinstance(times, int) or times <= 0:
            raise NotModelledError("`Tensor.repeat_interleave` with these arguments")
        whole, axis = (self.flatten(), 0) if dim is None else (self, dim % self.dim())
        shape = [e * times if n == axis else e for n, e in enumerate(whole.shape)]
        content = whole.storage.content
        if content is not None and not is_constant(content):
            each = {INDEX: floordiv(as_expr(INDEX), expr_of(times))}
            known = whole.dim() == 1 and whole._whole()
            content = substitute(content, each) if known else None
        return make(shape, self.dtype, content=content)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Assigns elements; what all but the first hold may go on where that ends."""
        storage, known = self.storage, None
        whole = self.dim() == 1 and self._whole() and type(value) is PhantomTensor
        goes_on = whole and isinstance(index, slice) and index == slice(1, None)
        if goes_on and expr_of(value.numel()) + 1 == storage.elements:
            known = joined_content(self[:1], value, self.dtype)
        storage.forget()
        storage.content = known

    __floordiv__ = functools.partialmethod(_divided, function=floordiv)
    __mod__ = functools.partialmethod(_divided, function=modulo)

    def __truediv__(self, other: Any) -> PhantomTensor:
        if isinstance(other, torch.Tensor):
            return OPERATORS["div"](self, other)  # type: ignore[no-any-return]
        dtype = self.dtype if self.dtype.is_floating_point else torch.get_default_dtype()
        return self._like(dtype, random=self.storage.random)

    def _compared(self, other: Any) -> Any:
        return OPERATORS["eq"](self, other)

    __lt__ = __le__ = __gt__ = __ge__ = _compared
    __eq__ = __ne__ = _compared
    __hash__ = object.__hash__

    def _bitwise(self, other: Any) -> Any:
        return OPERATORS["mul"](self, other)

    __and__ = __or__ = __xor__ = __rand__ = __ror__ = __rxor__ = _bitwise

    def __invert__(self) -> PhantomTensor:
        return self._like(self.dtype)

    def __pow__(self, other: Any) -> Any:
        return OPERATORS["pow"](self, other)

    def cumsum(self, axis: int = 0, dim: int | None = None, dtype: Any = None) -> PhantomTensor:
        kind = dtype or (self.dtype if self.dtype.is_floating_point else torch.int64)
        each = self._content_in(kind)
        content = None
        if self.dim() == 1 and each is not None and is_constant(each):
            content = each * (as_expr(INDEX) + 1)
        return make(self._shape, kind, content=content)

    def argsort(self, *_: Any, **__: Any) -> PhantomTensor:
        return self._like(torch.int64)

    def sort(self, *_: Any, **__: Any) -> tuple[PhantomTensor, PhantomTensor]:
        return self._like(self.dtype), self._like(torch.int64)

    def flip(self, *axes: Any) -> PhantomTensor:
        content = self.storage.content
        if content is not None and self._whole() and self.dim() == 1:
            last = self.storage.elements - 1
            content = substitute(content, {INDEX: last - as_expr(INDEX)})
        elif content is not None and not is_constant(content):
            content = None
        return self._like(self.dtype, content=content, random=self.storage.random)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in OPERATORS:
            return functools.partial(OPERATORS[name], self)
        if name.startswith("new_"):
            from ttools.sanitizer.sizes.host.factories import FACTORIES

            make_one = FACTORIES.get(name.removeprefix("new_"))
            if make_one is not None:
                return lambda *a, **k: make_one(*a, **{"dtype": self.dtype, **k})
        target = getattr(torch, name, None)
        if isinstance(target, torch.dtype):
            return lambda: self.to(target)
        aliases = {"float": torch.float32, "half": torch.float16, "int": torch.int32}
        aliases |= {"long": torch.int64, "short": torch.int16, "bool": torch.bool}
        aliases |= {"double": torch.float64}
        if name in aliases:
            return lambda: self.to(aliases[name])
        raise NotModelledError(f"`Tensor.{name}` of host code")

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        from ttools.sanitizer.sizes.host.factories import call_function

        return call_function(function, args, kwargs or {})


def make(
    shape: Sequence[Any],
    dtype: torch.dtype,
    *,
    content: Expr | None = None,
    value: float | None = None,
    random: bool = False,
    strides: Sequence[Any] | None = None,
) -> PhantomTensor:
    """A new tensor with a storage of its own."""
    extents = tuple(shape)
    for extent in extents:
        if extent < 0:
            raise RuntimeError("a tensor cannot have a negative dimension")
    elements = product(extents)
    if strides is not None:
        elements = 1 + sum((e - 1) * s for e, s in zip(extents, strides, strict=True))
    storage = Storage(expr_of(elements), dtype, content, value, random)
    return PhantomTensor(storage, extents, strides or contiguous_strides(extents))


def joined_content(one: PhantomTensor, other: PhantomTensor, dtype: torch.dtype) -> Expr | None:
    """The formula of what two tensors of integers hold one after the other, if it is one."""
    first, content = one._content_in(dtype), other._content_in(dtype)
    length = expr_of(one.numel())
    if content is None or not other._whole():
        return None
    shifted = substitute(content, {INDEX: as_expr(INDEX) - length})
    if first is None or length.constant != 1:
        return shifted if first == shifted and one._whole() else None
    at = expr_of(one.offset)
    same = substitute(first, {INDEX: at}) == substitute(shifted, {INDEX: as_expr(0)})
    return shifted if same else None


def constant_content(value: Any, dtype: torch.dtype) -> tuple[Expr | None, float | None]:
    """What a storage filled with a number holds: its `content` and `value`."""
    if dtype.is_floating_point:
        return None, float(value) if type(value) in (bool, int, float) else None
    return (expr_of(int(value) if isinstance(value, float) else value), None)
