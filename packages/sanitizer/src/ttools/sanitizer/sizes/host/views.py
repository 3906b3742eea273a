"""The elements that a phantom tensor reaches: its shape and strides, and views of it.

Must not know what elements hold, nor how new tensors are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ttools.sanitizer.sizes.host.paths import NotModelledError, expr_of, symbolic_int
from ttools.sanitizer.sizes.host.shapes import (
    contiguous_strides,
    flat,
    keeps_order,
    product,
    slice_ends,
    strides_as_torch,
    view_strides,
)
from ttools.sanitizer.sizes.host.storage import Storage

if TYPE_CHECKING:
    from typing_extensions import Self


class View:
    """What a phantom tensor is, and the other tensors that it gives of the same elements."""

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
        raise NotModelledError("what a tensor holds decides in host code")

    def item(self) -> Any:
        raise NotModelledError("what a tensor holds decides in host code (item)")

    tolist = numpy = __int__ = __float__ = __index__ = item

    def __iter__(self) -> Iterator[Self]:
        return iter(self.unbind(0))

    # ---- the same elements
    def _same(self, *_: Any, **__: Any) -> Self:
        return self

    cuda = cpu = detach = requires_grad_ = pin_memory = eval = data_ = _same
    data = property(_same)

    def view(self, *shape: Any) -> Self:
        if len(shape) == 1 and isinstance(shape[0], torch.dtype):
            if shape[0].itemsize != self.dtype.itemsize:
                raise NotModelledError("a view as a type of another size")
            storage = self.storage
            if storage.dtype != shape[0]:
                raise NotModelledError("a view as another type")
            return self
        extents = self._resolved(flat(shape))
        if tuple(map(expr_of, extents)) == tuple(map(expr_of, self._shape)):
            return self
        found = self._viewed(extents)
        if found is None:
            raise RuntimeError("view size is not compatible with input tensor's size and stride")
        return found

    def _viewed(self, extents: tuple[Any, ...]) -> Self | None:
        """A view of that shape; None where there is none, so that it takes a copy."""
        strides = view_strides(self._shape, self._strides, extents)
        if strides is None:
            if self.is_contiguous() or self.numel() == 0:
                strides = contiguous_strides(extents)
            else:
                strides = strides_as_torch(self._shape, self._strides, extents)
        return None if strides is None else type(self)(self.storage, extents, strides, self.offset)

    def _resolved(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        unknown = [n for n, e in enumerate(shape) if isinstance(e, int) and e == -1]
        if not unknown:
            return tuple(shape)
        rest = product([e for n, e in enumerate(shape) if n not in unknown])
        quotient = expr_of(self.numel()).divided(expr_of(rest))
        exact = not quotient[1].terms
        found = symbolic_int(quotient[0]) if exact else self.numel() // rest
        return tuple(found if n in unknown else e for n, e in enumerate(shape))

    def permute(self, *axes: Any) -> Self:
        order = [a % self.dim() for a in flat(axes)]
        shape, strides = [self._shape[a] for a in order], [self._strides[a] for a in order]
        return type(self)(self.storage, shape, strides, self.offset)

    def transpose(self, one: int, other: int) -> Self:
        order = list(range(self.dim()))
        order[one], order[other] = order[other], order[one]
        return self.permute(*order)

    swapaxes = transpose

    def t(self) -> Self:
        return self.transpose(0, 1) if self.dim() == 2 else self

    @property
    def T(self) -> Self:
        return self.permute(*reversed(range(self.dim())))

    @property
    def mT(self) -> Self:  # noqa: N802
        return self.transpose(-1, -2)

    def unsqueeze(self, axis: int) -> Self:
        axis %= self.dim() + 1
        stride = self._shape[axis] * self._strides[axis] if axis < self.dim() else 1
        shape = [*self._shape[:axis], 1, *self._shape[axis:]]
        strides = [*self._strides[:axis], stride, *self._strides[axis:]]
        return type(self)(self.storage, shape, strides, self.offset)

    def squeeze(self, axis: int | None = None) -> Self:
        axes = range(self.dim()) if axis is None else [axis % self.dim()]
        gone = [a for a in axes if self._shape[a] == 1]
        kept = [a for a in range(self.dim()) if a not in gone]
        return self.permute(*kept) if kept else type(self)(self.storage, (), (), self.offset)

    def expand(self, *shape: Any) -> Self:
        wanted = flat(shape)
        missing = len(wanted) - self.dim()
        own = [1] * missing + list(self._shape)
        steps = [0] * missing + list(self._strides)
        extents, strides = [], []
        for new, old, step in zip(wanted, own, steps, strict=True):
            keeps = (isinstance(new, int) and new == -1) or old != 1
            extents.append(old if keeps else new)
            strides.append(step if keeps else 0)
        return type(self)(self.storage, extents, strides, self.offset)

    def expand_as(self, other: Self) -> Self:
        return self.expand(*other.shape)

    def view_as(self, other: Self) -> Self:
        return self.view(*other.shape)

    def unflatten(self, axis: int, sizes: Any) -> Self:
        axis %= self.dim()
        return self.view(*self._shape[:axis], *sizes, *self._shape[axis + 1 :])

    def as_strided(self, shape: Any, strides: Any, offset: Any = None) -> Self:
        where = self.offset if offset is None else offset
        return type(self)(self.storage, shape, strides, where)

    def unfold(self, axis: int, size: Any, step: Any) -> Self:
        axis %= self.dim()
        shape, strides = list(self._shape), list(self._strides)
        count = (shape[axis] - size) // step + 1
        return type(self)(
            self.storage,
            [*shape[:axis], count, *shape[axis + 1 :], size],
            [*strides[:axis], strides[axis] * step, *strides[axis + 1 :], strides[axis]],
            self.offset,
        )

    def diagonal(self, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Self:
        if offset or self.dim() != 2 or (dim1, dim2) != (0, 1):
            raise NotModelledError("`Tensor.diagonal` with these arguments")
        (rows, columns), (down, right) = self._shape, self._strides
        length = rows if rows <= columns else columns
        return type(self)(self.storage, [length], [down + right], self.offset)

    def movedim(self, source: int, destination: int) -> Self:
        order = list(range(self.dim()))
        order.insert(destination % self.dim(), order.pop(source))
        return self.permute(*order)

    def narrow(self, axis: int, start: Any, length: Any) -> Self:
        axis %= self.dim()
        index: list[Any] = [slice(None)] * self.dim()
        index[axis] = slice(start, start + length)
        return self[tuple(index)]

    def select(self, axis: int, index: Any) -> Self:
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

    def __getitem__(self, index: Any) -> Self:
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
        return type(self)(self.storage, shape, strides, offset)


def put_all_on(device: torch.device) -> None:
    """Has all phantoms of this process say that they are on a device."""
    View.device, View.is_cuda = device, device.type == "cuda"
