"""Phantom tensors: shape, strides and type, at most a formula of what they hold, and no memory.

Host code under `--sizes` gets these from torch's factories. What is not modelled raises
`NotModelledError`, so that nothing is claimed of it. Must not know launches.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from ttools.sanitizer.sizes.algebra.polynomials import (
    SIZE,
    Poly,
    Symbol,
    as_poly,
    floordiv,
    modulo,
    substitute,
)
from ttools.sanitizer.sizes.host.paths import NotModelledError, current_path, host_int, poly_of

#: Stands for the number of an element in its storage, in formulas of contents.
INDEX: Final = Symbol("index", "index", SIZE)
_numbers = itertools.count()


@dataclass(eq=False)
class Storage:
    """What tensors that share memory have in common.

    Attributes:
        elements: how many there are.
        dtype: of each.
        content: of element `INDEX`, if it is an integer that is known.
        value: of all elements, if they are the same float.
        random: whether elements differ as random ones do.
        number: of the storage in its run.
    """

    elements: Poly
    dtype: torch.dtype
    content: Poly | None = None
    value: float | None = None
    random: bool = False
    number: int = field(default_factory=lambda: next(_numbers))

    def forget(self) -> None:
        """Something was written: nothing is known of what it holds."""
        self.content = self.value = None
        self.random = False


class PhantomTensor:
    """A tensor without memory; host code takes it for a `torch.Tensor`."""

    def __init__(
        self, storage: Storage, shape: Sequence[Any], strides: Sequence[Any], offset: Any = 0
    ) -> None:
        self.storage, self.offset = storage, offset
        self._shape, self._strides = tuple(shape), tuple(strides)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return torch.Tensor

    # ---- what it is
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
        return _product(self._shape)

    nelement = numel

    def __len__(self) -> int:
        return int(self._shape[0])

    def element_size(self) -> int:
        return self.dtype.itemsize

    itemsize = property(element_size)

    @property
    def nbytes(self) -> Any:
        return self.numel() * self.element_size()

    def is_contiguous(self, **_: Any) -> bool:
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
        raise NotModelledError("what a tensor holds decides in host code")

    def item(self) -> Any:
        raise NotModelledError("what a tensor holds decides in host code (item)")

    tolist = numpy = __int__ = __float__ = __index__ = __iter__ = item

    # ---- the same elements
    def _same(self, *_: Any, **__: Any) -> PhantomTensor:
        return self

    cuda = cpu = detach = requires_grad_ = pin_memory = eval = data_ = _same
    data = property(_same)

    def view(self, *shape: Any) -> PhantomTensor:
        if len(shape) == 1 and isinstance(shape[0], torch.dtype):
            if shape[0].itemsize != self.dtype.itemsize:
                raise NotModelledError("a view as a type of another size")
            storage = self.storage
            if storage.dtype != shape[0]:
                raise NotModelledError("a view as another type")
            return self
        extents = self._resolved(_flat(shape))
        if tuple(map(poly_of, extents)) == tuple(map(poly_of, self._shape)):
            return self
        strides = _view_strides(self._shape, self._strides, extents)
        if strides is None:
            if not self.is_contiguous():
                raise NotModelledError("a view of a tensor that is not contiguous")
            strides = contiguous_strides(extents)
        return PhantomTensor(self.storage, extents, strides, self.offset)

    def _resolved(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        unknown = [n for n, e in enumerate(shape) if isinstance(e, int) and e == -1]
        if not unknown:
            return tuple(shape)
        rest = _product([e for n, e in enumerate(shape) if n not in unknown])
        quotient = poly_of(self.numel()).divided(poly_of(rest))
        exact = not quotient[1].terms
        found = host_int(quotient[0]) if exact else self.numel() // rest
        return tuple(found if n in unknown else e for n, e in enumerate(shape))

    def reshape(self, *shape: Any) -> PhantomTensor:
        if not self.is_contiguous():
            return self.contiguous().view(*shape)
        return self.view(*shape)

    def flatten(self, start: int = 0, end: int = -1) -> PhantomTensor:
        rank = self.dim()
        start, end = start % rank, end % rank
        merged = _product(self._shape[start : end + 1])
        return self.reshape(*self._shape[:start], merged, *self._shape[end + 1 :])

    def ravel(self) -> PhantomTensor:
        return self.flatten()

    def permute(self, *axes: Any) -> PhantomTensor:
        order = [a % self.dim() for a in _flat(axes)]
        shape, strides = [self._shape[a] for a in order], [self._strides[a] for a in order]
        return PhantomTensor(self.storage, shape, strides, self.offset)

    def transpose(self, one: int, other: int) -> PhantomTensor:
        order = list(range(self.dim()))
        order[one], order[other] = order[other], order[one]
        return self.permute(*order)

    swapaxes = transpose

    def t(self) -> PhantomTensor:
        return self.transpose(0, 1) if self.dim() == 2 else self

    @property
    def T(self) -> PhantomTensor:
        return self.permute(*reversed(range(self.dim())))

    @property
    def mT(self) -> PhantomTensor:  # noqa: N802
        return self.transpose(-1, -2)

    def unsqueeze(self, axis: int) -> PhantomTensor:
        axis %= self.dim() + 1
        stride = self._shape[axis] * self._strides[axis] if axis < self.dim() else 1
        shape = [*self._shape[:axis], 1, *self._shape[axis:]]
        strides = [*self._strides[:axis], stride, *self._strides[axis:]]
        return PhantomTensor(self.storage, shape, strides, self.offset)

    def squeeze(self, axis: int | None = None) -> PhantomTensor:
        axes = range(self.dim()) if axis is None else [axis % self.dim()]
        gone = [a for a in axes if self._shape[a] == 1]
        kept = [a for a in range(self.dim()) if a not in gone]
        return self.permute(*kept) if kept else PhantomTensor(self.storage, (), (), self.offset)

    def expand(self, *shape: Any) -> PhantomTensor:
        wanted = _flat(shape)
        missing = len(wanted) - self.dim()
        own = [1] * missing + list(self._shape)
        steps = [0] * missing + list(self._strides)
        extents, strides = [], []
        for new, old, step in zip(wanted, own, steps, strict=True):
            keeps = (isinstance(new, int) and new == -1) or old != 1
            extents.append(old if keeps else new)
            strides.append(step if keeps else 0)
        return PhantomTensor(self.storage, extents, strides, self.offset)

    def expand_as(self, other: PhantomTensor) -> PhantomTensor:
        return self.expand(*other.shape)

    def view_as(self, other: PhantomTensor) -> PhantomTensor:
        return self.view(*other.shape)

    def as_strided(self, shape: Any, strides: Any, offset: Any = None) -> PhantomTensor:
        where = self.offset if offset is None else offset
        return PhantomTensor(self.storage, shape, strides, where)

    def narrow(self, axis: int, start: Any, length: Any) -> PhantomTensor:
        axis %= self.dim()
        index: list[Any] = [slice(None)] * self.dim()
        index[axis] = slice(start, start + length)
        return self[tuple(index)]

    def select(self, axis: int, index: Any) -> PhantomTensor:
        where: list[Any] = [slice(None)] * self.dim()
        where[axis % self.dim()] = index
        return self[tuple(where)]

    def split(self, length: Any, axis: int = 0, dim: int | None = None) -> tuple[Any, ...]:
        axis = axis if dim is None else dim
        total, found, start = self._shape[axis], [], 0
        lengths = list(length) if isinstance(length, (list, tuple)) else None
        if lengths is None:
            count = int((total + length - 1) // length)
            lengths = [length] * (count - 1) + [total - length * (count - 1)]
        for each in lengths:
            found.append(self.narrow(axis, start, each))
            start = start + each
        return tuple(found)

    def chunk(self, count: int, axis: int = 0, dim: int | None = None) -> tuple[Any, ...]:
        axis = axis if dim is None else dim
        return self.split((self._shape[axis] + count - 1) // count, axis)

    def unbind(self, axis: int = 0, dim: int | None = None) -> tuple[Any, ...]:
        axis = axis if dim is None else dim
        return tuple(self.select(axis, n) for n in range(int(self._shape[axis])))

    def __getitem__(self, index: Any) -> PhantomTensor:
        items = list(index) if isinstance(index, tuple) else [index]
        given = sum(i is not None and i is not Ellipsis for i in items)
        if any(i is Ellipsis for i in items):
            at = next(n for n, i in enumerate(items) if i is Ellipsis)
            items[at : at + 1] = [slice(None)] * (self.dim() - given)
        else:
            items += [slice(None)] * (self.dim() - given)
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
                start, stop, step = _slice_ends(item, extent)
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
        return PhantomTensor(self.storage, shape, strides, offset)

    # ---- new tensors
    def _whole(self) -> bool:
        """Whether its elements are its storage's, in order."""
        if poly_of(self.offset).constant != 0:
            return False
        return self.is_contiguous() and poly_of(self.numel()) == self.storage.elements

    def new(self, shape: Sequence[Any], dtype: Any = None, **content: Any) -> PhantomTensor:
        return make(shape, dtype or self.dtype, **content)

    def to(self, *args: Any, dtype: Any = None, **_: Any) -> PhantomTensor:
        for each in args:
            if isinstance(each, torch.dtype):
                dtype = each
            elif isinstance(each, torch.Tensor):
                dtype = each.dtype
        if dtype is None or dtype == self.dtype:
            return self
        source = self.storage if self._whole() else None
        content = value = None
        random = source is not None and source.random
        if source is not None and not dtype.is_floating_point:
            content = self._content_in(dtype)
            if content is None and source.value is not None and float(source.value).is_integer():
                content = as_poly(int(source.value))
        elif source is not None:
            value = source.value
            if value is None and source.content is not None and source.content.constant is not None:
                value = float(source.content.constant)
        return make(self._shape, dtype, content=content, value=value, random=random)

    type = to

    def _content_in(self, dtype: torch.dtype) -> Poly | None:
        """The formula of the elements in another type; None where this one may have cut them."""
        content = self.storage.content
        if content is None or dtype.itemsize <= self.dtype.itemsize:
            return content
        ask, limits = current_path().ask, torch.iinfo(self.dtype)
        grows = content.linear_in(INDEX)
        if grows is None or INDEX in grows[0].base_symbols() | grows[1].base_symbols():
            return None
        for index in (as_poly(0), self.storage.elements - 1):
            end = substitute(content, {INDEX: index})
            if not (ask(end - limits.min, "ge") and ask(limits.max - end, "ge")):
                return None
        return content

    def contiguous(self, **_: Any) -> PhantomTensor:
        return self if self.is_contiguous() else self.clone()

    def clone(self, **_: Any) -> PhantomTensor:
        storage = self.storage
        whole = self._whole()
        content = storage.content if whole or _is_constant(storage.content) else None
        return make(
            self._shape, self.dtype, content=content, value=storage.value, random=storage.random
        )

    def _filled(self, content: Poly | None, value: float | None, random: bool) -> PhantomTensor:
        storage = self.storage
        storage.forget()
        if self._whole():
            storage.content, storage.value, storage.random = content, value, random
        return self

    def zero_(self) -> PhantomTensor:
        return self.fill_(0)

    def fill_(self, value: Any) -> PhantomTensor:
        return self._filled(*_constant_content(value, self.dtype), False)

    def normal_(self, *_: Any, **__: Any) -> PhantomTensor:
        return self._filled(None, None, True)

    uniform_ = normal_

    def copy_(self, _: Any, **__: Any) -> PhantomTensor:
        return self._filled(None, None, False)

    def _elementwise(self, other: Any, function: Callable[[Poly, Poly], Poly]) -> PhantomTensor:
        """An elementwise result; its formula where both are integers that are known."""
        dtype, shape = self.dtype, self._shape
        mine = self.storage.content if self._whole() else None
        theirs: Poly | None = None
        if isinstance(other, torch.Tensor):
            dtype = torch.promote_types(dtype, other.dtype)
            phantom: Any = other
            if tuple(map(poly_of, phantom.shape)) != tuple(map(poly_of, shape)):
                raise NotModelledError("arithmetic of tensors of different shapes")
            theirs = phantom.storage.content if phantom._whole() else None
        elif isinstance(other, float):
            dtype = dtype if dtype.is_floating_point else torch.get_default_dtype()
        else:
            theirs = poly_of(other)
        content = None
        if mine is not None and theirs is not None and not dtype.is_floating_point:
            content = function(mine, theirs)
        random = self.storage.random or (
            isinstance(other, torch.Tensor) and getattr(other, "storage").random  # noqa: B009
        )
        return make(shape, dtype, content=content, random=random)

    def __add__(self, other: Any) -> PhantomTensor:
        return self._elementwise(other, lambda p, q: p + q)

    def __sub__(self, other: Any) -> PhantomTensor:
        return self._elementwise(other, lambda p, q: p - q)

    def __mul__(self, other: Any) -> PhantomTensor:
        return self._elementwise(other, lambda p, q: p * q)

    def __rsub__(self, other: Any) -> PhantomTensor:
        return self._elementwise(other, lambda p, q: q - p)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> PhantomTensor:
        return self * -1

    def _divided(self, other: Any, function: Callable[[Poly, Poly], Poly]) -> PhantomTensor:
        positive = isinstance(other, int) and poly_of(other).constant is not None and other > 0
        if positive:
            return self._elementwise(other, function)
        return make(self._shape, self.dtype)

    def __floordiv__(self, other: Any) -> PhantomTensor:
        return self._divided(other, floordiv)

    def __mod__(self, other: Any) -> PhantomTensor:
        return self._divided(other, modulo)

    def __truediv__(self, other: Any) -> PhantomTensor:
        return make(self._shape, torch.get_default_dtype(), random=self.storage.random)

    def _compared(self, other: Any) -> PhantomTensor:
        return make(self._shape, torch.bool)

    __lt__ = __le__ = __gt__ = __ge__ = _compared

    def cumsum(self, axis: int = 0, dim: int | None = None, dtype: Any = None) -> PhantomTensor:
        kind = dtype or (self.dtype if self.dtype.is_floating_point else torch.int64)
        each = self.storage.content
        content = None
        if self.dim() == 1 and each is not None and _is_constant(each):
            content = each * (as_poly(INDEX) + 1)
        return make(self._shape, kind, content=content)

    def argsort(self, *_: Any, **__: Any) -> PhantomTensor:
        return make(self._shape, torch.int64)

    def sort(self, *_: Any, **__: Any) -> tuple[PhantomTensor, PhantomTensor]:
        return make(self._shape, self.dtype), make(self._shape, torch.int64)

    def flip(self, *axes: Any) -> PhantomTensor:
        content = self.storage.content
        if content is not None and self._whole() and self.dim() == 1:
            last = self.storage.elements - 1
            content = substitute(content, {INDEX: last - as_poly(INDEX)})
        elif content is not None and not _is_constant(content):
            content = None
        return make(self._shape, self.dtype, content=content, random=self.storage.random)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
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
    content: Poly | None = None,
    value: float | None = None,
    random: bool = False,
    strides: Sequence[Any] | None = None,
) -> PhantomTensor:
    """A new tensor with a storage of its own."""
    extents = tuple(shape)
    for extent in extents:
        if extent < 0:
            raise RuntimeError("a tensor cannot have a negative dimension")
    elements = _product(extents)
    if strides is not None:
        elements = 1 + sum((e - 1) * s for e, s in zip(extents, strides, strict=True))
    storage = Storage(poly_of(elements), dtype, content, value, random)
    return PhantomTensor(storage, extents, strides or contiguous_strides(extents))


def contiguous_strides(shape: Sequence[Any]) -> list[Any]:
    """Row-major strides, as torch counts them: an empty axis counts as one element."""
    strides: list[Any] = []
    step: Any = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        # Of an empty tensor no element is reached, so that 0 for 1 makes no difference.
        step = step * extent
    return strides


def _constant_content(value: Any, dtype: torch.dtype) -> tuple[Poly | None, float | None]:
    if dtype.is_floating_point:
        return None, float(value) if not hasattr(value, "poly") else None
    return (poly_of(int(value) if isinstance(value, float) else value), None)


def _is_constant(content: Poly | None) -> bool:
    return content is not None and INDEX not in content.base_symbols()


def _product(extents: Sequence[Any]) -> Any:
    total: Any = 1
    for extent in extents:
        total = total * extent
    return total


def _flat(values: Sequence[Any]) -> tuple[Any, ...]:
    if len(values) == 1 and isinstance(values[0], (tuple, list)):
        return tuple(values[0])
    return tuple(values)


def _slice_ends(item: slice, extent: Any) -> tuple[Any, Any, Any]:
    step = 1 if item.step is None else item.step
    if step < 1:
        raise ValueError("step must be greater than zero")

    def clamped(end: Any, otherwise: Any) -> Any:
        if end is None:
            return otherwise
        end = end + extent if end < 0 else end
        if end < 0:
            return 0
        return extent if end > extent else end

    start, stop = clamped(item.start, 0), clamped(item.stop, extent)
    return start, stop if stop >= start else start, step


def _view_strides(
    shape: Sequence[Any], strides: Sequence[Any], wanted: Sequence[Any]
) -> list[Any] | None:
    """The strides of a view that splits single axes; None where it does anything else."""
    found: list[Any] = []
    at = 0
    for extent, stride in zip(shape, strides, strict=True):
        inner: list[Any] = []
        total: Any = 1
        while poly_of(total) != poly_of(extent):
            if at >= len(wanted):
                return None
            inner.append(wanted[at])
            total = total * wanted[at]
            at += 1
            if len(inner) > len(wanted):
                return None
        steps: list[Any] = []
        step = stride
        for each in reversed(inner):
            steps.insert(0, step)
            step = step * each
        found += steps
    while at < len(wanted):
        if poly_of(wanted[at]) != as_poly(1):
            return None
        found.append(1)
        at += 1
    return found
