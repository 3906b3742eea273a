"""Fake tensors, which have shape, strides and type but no memory, and torch's operators on them.

While host code is analysed, replacements of torch's factories give it fake tensors. A fake tensor
of integers may have an expression for its elements. An operation that is not modelled raises
`NotModelledError`, so that nothing is proved.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch._library.custom_ops import OPDEFS

from ttools.ir.expr import (
    SIZE,
    Expr,
    Symbol,
    as_expr,
    floordiv,
    maximum,
    minimum,
    modulo,
    substitute,
)
from ttools.prove.host.shapes import (
    contiguous_strides,
    flat,
    keeps_order,
    like_strides,
    product,
    slice_ends,
    strides_as_torch,
    view_strides,
)
from ttools.prove.host.symbolic_numbers import NotModelledError, current_path, expr_of, symbolic_int

#: Symbol for the position of an element in its storage; it occurs in expressions for contents.
INDEX: Final = Symbol("index", "index", SIZE)
_numbers = itertools.count()


@dataclass(eq=False)
class Storage:
    """Memory that fake tensors share.

    Attributes:
        dtype: Type of the elements.
        content: Expression for element number `INDEX`, if the elements are integers; None if
            unknown.
        value: Value of all elements, if they are floats and all equal.
        random: True if the elements were drawn at random.
    """

    elements: Expr
    dtype: torch.dtype
    content: Expr | None = None
    value: float | None = None
    random: bool = False
    number: int = field(default_factory=lambda: next(_numbers))

    def forget(self) -> None:
        """Forget the contents after a write."""
        self.content = self.value = None
        self.random = False


def is_constant(content: Expr | None) -> bool:
    """Return whether all elements are known to be equal."""
    return content is not None and INDEX not in content.base_symbols()


def is_uncut(content: Expr, elements: Expr, dtype: torch.dtype) -> bool:
    """Return whether all values of an expression are known to fit in an integer type."""
    limits, ask = torch.iinfo(dtype), current_path().ask
    grows = content.linear_in(INDEX)
    if grows is not None and INDEX not in grows[0].base_symbols() | grows[1].base_symbols():
        ends = [substitute(content, {INDEX: index}) for index in (as_expr(0), elements - 1)]
        return all(ask(e - limits.min, "ge") and ask(limits.max - e, "ge") for e in ends)
    if len(content.terms) != 1:
        return False
    (((symbol, *others), factor),) = content.terms.items()
    if others or factor != 1:
        return False
    if symbol.kind == "mod":
        return ask(limits.max + 1 - symbol.args[1], "ge")
    parts = {"floordiv": symbol.args[:1], "min": symbol.args, "max": symbol.args}
    return symbol.kind in parts and all(is_uncut(p, elements, dtype) for p in parts[symbol.kind])


def _by(function: Callable[[Any, Any], Any]) -> Callable[[FakeTensor, Any], FakeTensor]:
    return lambda self, other: self._elementwise(other, function)


class FakeTensor:
    """A tensor without memory; to host code it looks like a `torch.Tensor`."""

    def __init__(
        self, storage: Storage, shape: Sequence[Any], strides: Sequence[Any], offset: Any = 0
    ) -> None:
        self.storage, self.offset = storage, offset
        self._shape, self._strides = tuple(shape), tuple(strides)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return torch.Tensor

    # ---- properties
    @property
    def shape(self) -> tuple[Any, ...]:
        return self._shape

    @property
    def dtype(self) -> torch.dtype:
        return self.storage.dtype

    device = torch.device("cpu")
    layout = torch.strided
    requires_grad = is_cuda = is_sparse = is_quantized = False
    grad = None

    def size(self, axis: int | None = None) -> Any:
        return self._shape if axis is None else self._shape[axis]

    def stride(self, axis: int | None = None) -> Any:
        return self._strides if axis is None else self._strides[axis]

    def storage_offset(self) -> Any:
        return self.offset

    def dim(self) -> int:
        return len(self._shape)

    ndimension = dim
    ndim = property(dim)

    def numel(self) -> Any:
        return product(self._shape)

    nelement = numel

    def __len__(self) -> int:
        return int(self._shape[0])

    def element_size(self) -> int:
        return self.dtype.itemsize

    itemsize = property(element_size)

    @property
    def nbytes(self) -> Any:
        return self.numel() * self.element_size()

    def is_contiguous(self, memory_format: Any = torch.contiguous_format) -> bool:
        keeps_order(memory_format)
        expected: Any = 1
        for extent, stride in zip(reversed(self._shape), reversed(self._strides), strict=True):
            if extent == 1:
                continue
            if stride != expected:
                return False
            expected = expected * extent
        return True

    def is_floating_point(self) -> bool:
        return self.dtype.is_floating_point

    def data_ptr(self) -> int:
        raise NotModelledError("the address of a tensor (data_ptr)")

    def __bool__(self) -> bool:
        raise NotModelledError("host code that depends on the contents of a tensor")

    def item(self) -> Any:
        raise NotModelledError("host code that reads the contents of a tensor")

    tolist = numpy = __int__ = __float__ = __index__ = item

    def __iter__(self) -> Iterator[FakeTensor]:
        return iter(self.unbind(0))

    # ---- views
    def _same(self, *_: Any, **__: Any) -> FakeTensor:
        return self

    cuda = cpu = detach = requires_grad_ = pin_memory = eval = data_ = _same
    data = property(_same)

    def view(self, *shape: Any) -> FakeTensor:
        if len(shape) == 1 and isinstance(shape[0], torch.dtype):
            if shape[0].itemsize != self.dtype.itemsize:
                raise NotModelledError("a view with a dtype of another size")
            storage = self.storage
            if storage.dtype != shape[0]:
                raise NotModelledError("a view with another dtype")
            return self
        extents = self._resolved(flat(shape))
        if tuple(map(expr_of, extents)) == tuple(map(expr_of, self._shape)):
            return self
        view = self._viewed(extents)
        if view is None:
            raise RuntimeError("view size is not compatible with input tensor's size and stride")
        return view

    def _viewed(self, extents: tuple[Any, ...]) -> FakeTensor | None:
        """Return a view with the given extents; None if torch would have to copy."""
        strides = view_strides(self._shape, self._strides, extents)
        if strides is None:
            if self.is_contiguous() or self.numel() == 0:
                strides = contiguous_strides(extents)
            else:
                strides = strides_as_torch(self._shape, self._strides, extents)
        if strides is None:
            return None
        return FakeTensor(self.storage, extents, strides, self.offset)

    def _resolved(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        unknown = [n for n, e in enumerate(shape) if isinstance(e, int) and e == -1]
        if not unknown:
            return tuple(shape)
        rest = product([e for n, e in enumerate(shape) if n not in unknown])
        quotient = expr_of(self.numel()).divided(expr_of(rest))
        exact = not quotient[1].terms
        extent = symbolic_int(quotient[0]) if exact else self.numel() // rest
        return tuple(extent if n in unknown else e for n, e in enumerate(shape))

    def permute(self, *axes: Any) -> FakeTensor:
        order = [a % self.dim() for a in flat(axes)]
        shape, strides = [self._shape[a] for a in order], [self._strides[a] for a in order]
        return FakeTensor(self.storage, shape, strides, self.offset)

    def transpose(self, one: int, other: int) -> FakeTensor:
        order = list(range(self.dim()))
        order[one], order[other] = order[other], order[one]
        return self.permute(*order)

    swapaxes = transpose

    def t(self) -> FakeTensor:
        return self.transpose(0, 1) if self.dim() == 2 else self

    @property
    def T(self) -> FakeTensor:
        return self.permute(*reversed(range(self.dim())))

    @property
    def mT(self) -> FakeTensor:  # noqa: N802
        return self.transpose(-1, -2)

    def unsqueeze(self, axis: int) -> FakeTensor:
        axis %= self.dim() + 1
        stride = self._shape[axis] * self._strides[axis] if axis < self.dim() else 1
        shape = [*self._shape[:axis], 1, *self._shape[axis:]]
        strides = [*self._strides[:axis], stride, *self._strides[axis:]]
        return FakeTensor(self.storage, shape, strides, self.offset)

    def squeeze(self, axis: int | None = None) -> FakeTensor:
        axes = range(self.dim()) if axis is None else [axis % self.dim()]
        gone = [a for a in axes if self._shape[a] == 1]
        kept = [a for a in range(self.dim()) if a not in gone]
        return self.permute(*kept) if kept else FakeTensor(self.storage, (), (), self.offset)

    def expand(self, *shape: Any) -> FakeTensor:
        wanted = flat(shape)
        missing = len(wanted) - self.dim()
        own = [1] * missing + list(self._shape)
        steps = [0] * missing + list(self._strides)
        extents, strides = [], []
        for new, old, step in zip(wanted, own, steps, strict=True):
            keeps = (isinstance(new, int) and new == -1) or old != 1
            extents.append(old if keeps else new)
            strides.append(step if keeps else 0)
        return FakeTensor(self.storage, extents, strides, self.offset)

    def expand_as(self, other: FakeTensor) -> FakeTensor:
        return self.expand(*other.shape)

    def view_as(self, other: FakeTensor) -> FakeTensor:
        return self.view(*other.shape)

    def unflatten(self, axis: int, sizes: Any) -> FakeTensor:
        axis %= self.dim()
        return self.view(*self._shape[:axis], *sizes, *self._shape[axis + 1 :])

    def as_strided(self, shape: Any, strides: Any, offset: Any = None) -> FakeTensor:
        where = self.offset if offset is None else offset
        return FakeTensor(self.storage, shape, strides, where)

    def unfold(self, axis: int, size: Any, step: Any) -> FakeTensor:
        axis %= self.dim()
        shape, strides = list(self._shape), list(self._strides)
        count = (shape[axis] - size) // step + 1
        return FakeTensor(
            self.storage,
            [*shape[:axis], count, *shape[axis + 1 :], size],
            [*strides[:axis], strides[axis] * step, *strides[axis + 1 :], strides[axis]],
            self.offset,
        )

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> FakeTensor:
        if offset or self.dim() != 2 or (dim1, dim2) != (0, 1):
            raise NotModelledError("`Tensor.diagonal` with these arguments")
        (rows, columns), (down, right) = self._shape, self._strides
        length = rows if rows <= columns else columns
        return FakeTensor(self.storage, [length], [down + right], self.offset)

    def movedim(self, source: int, destination: int) -> FakeTensor:
        order = list(range(self.dim()))
        order.insert(destination % self.dim(), order.pop(source))
        return self.permute(*order)

    def narrow(self, axis: int, start: Any, length: Any) -> FakeTensor:
        axis %= self.dim()
        index: list[Any] = [slice(None)] * self.dim()
        index[axis] = slice(start, start + length)
        return self[tuple(index)]

    def select(self, axis: int, index: Any) -> FakeTensor:
        where: list[Any] = [slice(None)] * self.dim()
        where[axis % self.dim()] = index
        return self[tuple(where)]

    def split(self, length: Any, axis: int = 0, dim: int | None = None) -> tuple[Any, ...]:
        axis = axis if dim is None else dim
        total, parts, start = self._shape[axis], [], 0
        lengths = list(length) if isinstance(length, (list, tuple)) else None
        if lengths is None:
            count = int((total + length - 1) // length)
            lengths = [length] * (count - 1) + [total - length * (count - 1)]
        for size in lengths:
            parts.append(self.narrow(axis, start, size))
            start = start + size
        return tuple(parts)

    def chunk(self, count: int, axis: int = 0, dim: int | None = None) -> tuple[Any, ...]:
        axis = axis if dim is None else dim
        return self.split((self._shape[axis] + count - 1) // count, axis)

    def unbind(self, axis: int = 0, dim: int | None = None) -> tuple[Any, ...]:
        axis = axis if dim is None else dim
        return tuple(self.select(axis, n) for n in range(int(self._shape[axis])))

    def __getitem__(self, index: Any) -> FakeTensor:
        items = list(index) if isinstance(index, tuple) else [index]
        indexed = sum(i is not None and i is not Ellipsis for i in items)
        if any(i is Ellipsis for i in items):
            at = next(n for n, i in enumerate(items) if i is Ellipsis)
            items[at : at + 1] = [slice(None)] * (self.dim() - indexed)
        else:
            items += [slice(None)] * (self.dim() - indexed)
        shape: list[Any] = []
        strides: list[Any] = []
        offset, axis = self.offset, 0
        for item in items:
            if item is None:
                shape.append(1)
                strides.append(1)
                continue
            extent, stride = self._shape[axis], self._strides[axis]
            axis += 1
            if isinstance(item, slice):
                start, stop, step = slice_ends(item, extent)
                length = stop - start if step == 1 else (stop - start + step - 1) // step
                shape.append(length if length > 0 else 0)
                strides.append(stride * step)
                offset = offset + start * stride
            elif isinstance(item, (bool, torch.Tensor)) or not hasattr(item, "__index__"):
                raise NotModelledError("indexing with a tensor")
            else:
                where = item + extent if item < 0 else item
                if where < 0 or where >= extent:
                    raise IndexError("index out of range")
                offset = offset + where * stride
        return FakeTensor(self.storage, shape, strides, offset)

    def reshape(self, *shape: Any) -> FakeTensor:
        extents = self._resolved(flat(shape))
        view = self._viewed(extents)
        return self.contiguous().view(*extents) if view is None else view

    def flatten(self, start: int = 0, end: int = -1) -> FakeTensor:
        rank = self.dim()
        start, end = start % rank, end % rank
        merged = product(self._shape[start : end + 1])
        return self.reshape(*self._shape[:start], merged, *self._shape[end + 1 :])

    def ravel(self) -> FakeTensor:
        return self.flatten()

    # ---- new tensors
    def _whole(self) -> bool:
        """Return whether the tensor consists of all elements of its storage, in order."""
        if expr_of(self.offset).constant != 0:
            return False
        return self.is_contiguous() and expr_of(self.numel()) == self.storage.elements

    def new(self, shape: Sequence[Any], dtype: Any = None, **content: Any) -> FakeTensor:
        return make(shape, dtype or self.dtype, **content)

    def to(
        self,
        *args: Any,
        dtype: Any = None,
        copy: bool = False,
        memory_format: Any = None,
        **_: Any,
    ) -> FakeTensor:
        if not keeps_order(memory_format):
            return self.to(*args, dtype=dtype, copy=copy).contiguous()
        for argument in args:
            if isinstance(argument, torch.dtype):
                dtype = argument
            elif isinstance(argument, torch.Tensor):
                dtype = argument.dtype
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

    def _like(self, dtype: torch.dtype, **content: Any) -> FakeTensor:
        """Return a new tensor with the shape of this one and the same order of axes."""
        tensor = make(self._shape, dtype, **content)
        tensor._strides = tuple(like_strides(self._shape, self._strides))
        return tensor

    def _content_in(self, dtype: torch.dtype) -> Expr | None:
        """Return the expression of the elements after conversion to a type.

        Returns:
            The expression; None if it is unknown, for example because elements may have wrapped.
        """
        content = self.storage.content
        if content is None or dtype.is_floating_point:
            return None
        if torch.bool in (dtype, self.dtype) and dtype != self.dtype:
            constant = content.constant
            return None if constant is None else as_expr(int(constant != 0))
        if dtype.itemsize <= self.dtype.itemsize:
            return content
        return content if is_uncut(content, self.storage.elements, self.dtype) else None

    def contiguous(self, memory_format: Any = torch.contiguous_format) -> FakeTensor:
        return self if self.is_contiguous(memory_format) else self.clone(memory_format)

    def clone(self, memory_format: Any = None) -> FakeTensor:
        storage = self.storage
        whole = self._whole()
        content = storage.content if whole or is_constant(storage.content) else None
        copy = self._like(self.dtype, content=content, value=storage.value, random=storage.random)
        if not keeps_order(memory_format):
            copy._strides = tuple(contiguous_strides(self._shape))
        return copy

    def _filled(self, content: Expr | None, value: float | None, random: bool) -> FakeTensor:
        storage = self.storage
        storage.forget()
        if self._whole():
            storage.content, storage.value, storage.random = content, value, random
        return self

    def zero_(self) -> FakeTensor:
        return self.fill_(0)

    def fill_(self, value: Any) -> FakeTensor:
        return self._filled(*constant_content(value, self.dtype), False)

    def normal_(self, *_: Any, **__: Any) -> FakeTensor:
        return self._filled(None, None, True)

    uniform_ = normal_

    def copy_(self, _: Any, **__: Any) -> FakeTensor:
        return self._filled(None, None, False)

    def _elementwise(
        self, other: Any, function: Callable[[Expr, Expr], Expr], modular: bool = True
    ) -> FakeTensor:
        """Return an elementwise result, with an expression if both operands have one.

        Args:
            other: A tensor or a number.
            function: The operation on expressions.
            modular: True if wrapped operands give the wrapped result, as for sums and products.
        """
        dtype, theirs = self.dtype, None
        if isinstance(other, torch.Tensor):
            dtype = torch.promote_types(dtype, other.dtype)
            fake: Any = other
            if tuple(map(expr_of, fake.shape)) != tuple(map(expr_of, self._shape)):
                return OPERATORS["add"](self, other)  # type: ignore[no-any-return]
            if fake.dim() > 1 and fake.stride() != self.stride():
                return OPERATORS["add"](self, other)  # type: ignore[no-any-return]
            theirs = fake._content_in(dtype) if fake._whole() else None
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

    def __neg__(self) -> FakeTensor:
        return self * -1

    def _changed(self, other: Any) -> FakeTensor:
        """Model an in-place operation, after which the elements are unknown."""
        self.storage.forget()
        return self

    __iadd__ = __isub__ = __imul__ = __itruediv__ = __ifloordiv__ = __imod__ = _changed
    __iand__ = __ior__ = __ixor__ = __ilshift__ = __irshift__ = __ipow__ = _changed

    def _divided(self, other: Any, function: Callable[[Expr, Expr], Expr]) -> FakeTensor:
        if isinstance(other, int) and other > 0:
            return self._elementwise(other, function, modular=False)
        return OPERATORS["remainder"](self, other)  # type: ignore[no-any-return]

    def __lshift__(self, other: Any) -> FakeTensor:
        return self.__mul__(1 << other)

    def __rshift__(self, other: Any) -> FakeTensor:
        return self._divided(1 << other, floordiv)

    def clamp(self, min: Any = None, max: Any = None) -> FakeTensor:
        if not (self._whole() and all(e is None or isinstance(e, int) for e in (min, max))):
            return OPERATORS["clamp"](self, min=min, max=max)  # type: ignore[no-any-return]
        clamped = self
        if min is not None:
            clamped = clamped._elementwise(min, maximum, modular=False)
        return clamped if max is None else clamped._elementwise(max, minimum, modular=False)

    def repeat(self, *times: Any) -> FakeTensor:
        counts = flat(times)
        shape = [1] * (len(counts) - self.dim()) + list(self._shape)
        extents = [e * n for e, n in zip(shape, counts, strict=True)]
        content = self.storage.content
        return make(extents, self.dtype, content=content if is_constant(content) else None)

    tile = repeat

    def repeat_interleave(self, times: Any, dim: int | None = None, **_: Any) -> FakeTensor:
        if not isinstance(times, int) or times <= 0:
            raise NotModelledError("`Tensor.repeat_interleave` with these arguments")
        whole, axis = (self.flatten(), 0) if dim is None else (self, dim % self.dim())
        shape = [e * times if n == axis else e for n, e in enumerate(whole.shape)]
        content = whole.storage.content
        if content is not None and not is_constant(content):
            source = {INDEX: floordiv(as_expr(INDEX), expr_of(times))}
            is_row = whole.dim() == 1 and whole._whole()
            content = substitute(content, source) if is_row else None
        return make(shape, self.dtype, content=content)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Assign elements; after `x[1:] = y`, `y` may continue the expression of `x[:1]`."""
        storage, content = self.storage, None
        whole = self.dim() == 1 and self._whole() and type(value) is FakeTensor
        goes_on = whole and isinstance(index, slice) and index == slice(1, None)
        if goes_on and expr_of(value.numel()) + 1 == storage.elements:
            content = joined_content(self[:1], value, self.dtype)
        storage.forget()
        storage.content = content

    __floordiv__ = functools.partialmethod(_divided, function=floordiv)
    __mod__ = functools.partialmethod(_divided, function=modulo)

    def __truediv__(self, other: Any) -> FakeTensor:
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

    def __invert__(self) -> FakeTensor:
        return self._like(self.dtype)

    def __pow__(self, other: Any) -> Any:
        return OPERATORS["pow"](self, other)

    def cumsum(self, axis: int = 0, dim: int | None = None, dtype: Any = None) -> FakeTensor:
        kind = dtype or (self.dtype if self.dtype.is_floating_point else torch.int64)
        element = self._content_in(kind)
        content = None
        if self.dim() == 1 and element is not None and is_constant(element):
            content = element * (as_expr(INDEX) + 1)
        return make(self._shape, kind, content=content)

    def argsort(self, *_: Any, **__: Any) -> FakeTensor:
        return self._like(torch.int64)

    def sort(self, *_: Any, **__: Any) -> tuple[FakeTensor, FakeTensor]:
        return self._like(self.dtype), self._like(torch.int64)

    def flip(self, *axes: Any) -> FakeTensor:
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
        raise NotModelledError(f"`Tensor.{name}` in host code")

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        return call_function(function, args, kwargs or {})


_METHODS = frozenset(
    (
        *("argsort", "sort", "cumsum", "permute", "transpose", "swapaxes", "unsqueeze", "squeeze"),
        *("flatten", "reshape", "narrow", "split", "chunk", "unbind", "select", "flip", "clone"),
        *("numel", "as_strided", "ravel", "t", "clamp", "diagonal", "movedim", "tile", "repeat"),
        *("unflatten", "repeat_interleave"),
    )
)


def call_function(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Return the result of a function of torch on fake tensors.

    Raises:
        NotModelledError: The function is not modelled.
    """
    name = getattr(function, "__name__", str(function))
    operator = getattr(
        getattr(function, "overloadpacket", function), "_qualified_op_name", "aten::"
    )
    if not operator.startswith("aten::"):
        return _custom(operator)(*args, **kwargs)
    if kwargs.get("out") is not None:
        return written_to(call_function, function, args, **kwargs)
    if name in FUNCTIONS:
        return FUNCTIONS[name](*args, **kwargs)
    method = {"add": "__add__", "sub": "__sub__", "mul": "__mul__"}.get(name, name)
    if args and type(args[0]) is FakeTensor and (name in _METHODS or method != name):
        return getattr(args[0], method)(*args[1:], **kwargs)
    if name in OPERATORS and args and type(args[0]) is FakeTensor:
        return OPERATORS[name](*args, **kwargs)
    raise NotModelledError(f"`torch.{name}` in host code")


def _custom(operator: str) -> Callable[..., Any]:
    """Return the Python function of a custom operator."""
    if operator not in OPDEFS:
        raise NotModelledError(f"the operator `{operator}` in host code")
    return OPDEFS[operator]._init_fn  # type: ignore[no-any-return]


def written_to(make_one: Callable[..., Any], *args: Any, out: Any, **kwargs: Any) -> Any:
    """Write the result of a function to the tensor given as `out=`, and return that tensor."""
    if make_one is call_function:
        result = make_one(*args, kwargs)
    else:
        result = make_one(*args, **{"dtype": out.dtype, **kwargs})
    same_shape = [*map(expr_of, result.shape)] == [*map(expr_of, out.shape)]
    if type(result) is not FakeTensor or result.dtype != out.dtype or not same_shape:
        raise NotModelledError(
            "`out=` with a tensor whose shape or dtype differs from the result's"
        )
    storage = result.storage
    return out._filled(storage.content, storage.value, storage.random)


def make(
    shape: Sequence[Any],
    dtype: torch.dtype,
    *,
    content: Expr | None = None,
    value: float | None = None,
    random: bool = False,
    strides: Sequence[Any] | None = None,
) -> FakeTensor:
    """Return a new fake tensor with a new storage."""
    extents = tuple(shape)
    for extent in extents:
        if extent < 0:
            raise RuntimeError("a tensor cannot have a negative dimension")
    elements = product(extents)
    if strides is not None:
        elements = 1 + sum((e - 1) * s for e, s in zip(extents, strides, strict=True))
    storage = Storage(expr_of(elements), dtype, content, value, random)
    return FakeTensor(storage, extents, strides or contiguous_strides(extents))


def joined_content(one: FakeTensor, other: FakeTensor, dtype: torch.dtype) -> Expr | None:
    """Return the expression for the concatenation of two tensors of integers, or None."""
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
    """Return `content` and `value` of a storage that is filled with a number."""
    if dtype.is_floating_point:
        return None, float(value) if type(value) in (bool, int, float) else None
    return (expr_of(int(value) if isinstance(value, float) else value), None)


def put_all_on(device: torch.device) -> None:
    """Let all fake tensors of this process report that they are on a device."""
    FakeTensor.device, FakeTensor.is_cuda = device, device.type == "cuda"


#: Functions of torch that create tensors; `factories.py` registers them.
FACTORIES: dict[str, Callable[..., Any]] = {}
#: Other functions of torch that take tensors and are not methods; `factories.py` registers them.
FUNCTIONS: dict[str, Callable[..., Any]] = {}
#: Functions of one tensor that keep its type.
_UNARY = ("abs", "neg", "relu", "square", "sign", "clamp", "clamp_min", "clamp_max")
_ROUNDING = ("floor", "ceil", "round", "trunc")
#: Functions of one tensor whose result is always a float.
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
    """Return the shape to which several shapes are broadcast.

    Raises:
        RuntimeError: The shapes do not match.
    """
    extents: list[Any] = [1] * max(map(len, shapes))
    for shape in shapes:
        for n, extent in enumerate(reversed(shape), 1):
            if expr_of(extents[-n]) == expr_of(extent) or extent == 1:
                continue
            if extents[-n] != 1:
                raise RuntimeError("the sizes of tensors do not match")
            extents[-n] = extent
    return tuple(extents)


def _as_float(dtype: torch.dtype) -> torch.dtype:
    return dtype if dtype.is_floating_point else torch.get_default_dtype()


def _operands(args: Sequence[Any]) -> tuple[tuple[Any, ...], torch.dtype]:
    """Return the shape and type of the result of an elementwise operation."""
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        if 0 in (tensor.dim(), tensors[0].dim()) and tensor.dtype != dtype:
            raise NotModelledError("the dtype of a result computed from a zero-dimensional tensor")
        dtype = torch.promote_types(dtype, tensor.dtype)
    if any(isinstance(a, float) for a in args):
        dtype = _as_float(dtype)
    for tensor in tensors:
        if tensor.dim() > 1:
            in_order = like_strides(tensor.shape, tensor.stride())
            if list(map(expr_of, in_order)) != list(map(expr_of, contiguous_strides(tensor.shape))):
                raise NotModelledError("an operator on a tensor with permuted axes")
    return broadcast([t.shape for t in tensors]), dtype


def _elementwise(kind: Callable[[torch.dtype], torch.dtype]) -> Callable[..., FakeTensor]:
    def function(*args: Any, dtype: torch.dtype | None = None, **kwargs: Any) -> FakeTensor:
        if "out" in kwargs:
            raise NotModelledError("an operator with `out=`")
        shape, joint = _operands((*args, *kwargs.values()))
        return make(shape, dtype or kind(joint))

    return function


def _reduction(name: str) -> Callable[..., FakeTensor]:
    def function(tensor: Any, *args: Any, **kwargs: Any) -> FakeTensor:
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
        return make(shape, kwargs.get("dtype") or _reduced_type(name, tensor.dtype))

    return function


def _reduced_type(name: str, dtype: torch.dtype) -> torch.dtype:
    if name in ("any", "all"):
        return torch.bool
    if name in ("sum", "prod") and not dtype.is_floating_point:
        return torch.int64
    return dtype


def where(condition: Any, *choices: Any, **others: Any) -> FakeTensor:
    """Replace `torch.where`, which ignores `__torch_function__` if an operand is a number."""
    if len(choices) != 2 or others:
        raise NotModelledError("`torch.where` with these arguments")
    tensors = [c for c in choices if isinstance(c, torch.Tensor)]
    if not tensors:
        raise NotModelledError("`torch.where` of two numbers")
    shape = _operands([condition, *tensors])[0]
    return make(shape, _operands(choices)[1])


def _in_place(tensor: Any, *_: Any, **__: Any) -> FakeTensor:
    tensor.storage.forget()
    return tensor  # type: ignore[no-any-return]


OPERATORS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys((*_UNARY, *_ROUNDING, *_BINARY), _elementwise(lambda kind: kind)),
    **dict.fromkeys((*_FLOAT, *_DIVIDING), _elementwise(_as_float)),
    **dict.fromkeys(_LOGIC, _elementwise(lambda _: torch.bool)),
    **{name: _reduction(name) for name in _REDUCING},
    **dict.fromkeys(_IN_PLACE, _in_place),
    "where": lambda tensor, condition, other: where(condition, tensor, other),
}
