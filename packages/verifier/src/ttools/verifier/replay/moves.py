"""Finds results that torch moved or converted, and that the kernels of a plan only copy.

The tensors that torch makes from arguments by moves and conversions alone are remembered, and are
found again by their elements. Kernels may copy these tensors in parts, without the gaps that torch
has left, or as integers with the same bits. Elements that have the same order in an argument are
not counted, since a wrapper may copy an argument.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import torch

from ttools.core.spec import TensorSpec
from ttools.verifier.replay.work import TELLING, is_trivial, short_name

#: Larger tensors are not compared.
_MOST = 1 << 22
#: Results with more elements than the first number are compared only with whole tensors. Types of
#: 16 bits have few different values, so their elements are searched one by one, and only in tensors
#: with at most the second number of elements.
_MOST_ARRANGED, _MOST_SEARCHED = 1 << 20, 1 << 15
#: Elements count as equal if their relative difference is at most this. A kernel that only
#: multiplies by almost one therefore counts as one that only copies.
_CLOSE = {torch.float16: 4e-3, torch.bfloat16: 3e-2}
_CLOSE_F32 = 1e-4
#: A result is searched in tensors that have at least this share of its number of elements, and only
#: in the largest ones, up to the second number.
_SHARE, _MOST_TABLES = 0.125, 32
#: Elements are searched by their values only if at least this share of the values is distinct.
_DIFFERENT = 0.9
#: A large table may contain all values of a tensor by chance. In this case, it also contains many
#: values of the tensor multiplied by the first number: at least the share given by the second
#: number.
_CHANGED, _BY_CHANCE = 1.05, 0.5
#: Results with fewer distinct values are not searched as a sequence, since any long tensor may
#: contain such a sequence.
_FEWEST_DIFFERENT = 16
#: Share of neighbouring elements that may be out of order, because some values are almost equal. In
#: every argument, the number of elements that are out of order must be larger by more than the
#: given factor.
_DISORDER, _WORSE = 0.01, 2


class MovedValues:
    """The tensors that torch made from arguments and constants by moves and conversions alone."""

    def __init__(self) -> None:
        #: Tensors, each with the operator that rearranged or converted it; empty for arguments.
        self._tables: list[tuple[torch.Tensor, str]] = []
        #: Indices in `_tables` by the tensors' number of bytes and, for floats, by their number of
        #: elements.
        self._by_size: dict[tuple[str, int], list[int]] = {}
        #: For each storage, the operator that wrote to it; empty if its elements are those of an
        #: argument in the same order. Storages to which a kernel or a computation has written are
        #: left out.
        self._storages: dict[int, str] = {}

    def argument(self, storage: int, tensor: torch.Tensor | None = None) -> None:
        """Remember an argument, or a storage that contains a constant or has no contents."""
        self._storages[storage] = ""
        if tensor is not None:
            self._remember(tensor, "")

    def computed(self, storages: Iterable[int]) -> None:
        """Forget storages that a kernel or a computing operator writes to."""
        for storage in storages:
            self._storages.pop(storage, None)

    def moved(
        self,
        operator: str,
        taken: Iterable[tuple[TensorSpec, torch.Tensor]],
        view: TensorSpec,
        tensor: torch.Tensor,
        *,
        is_whole: bool,
    ) -> None:
        """Remember a tensor that an operator moved or converted.

        Args:
            operator: Qualified name of the operator.
            taken: Operands of the operator.
            view: Place of the tensor in the plan's storages.
            tensor: The tensor with the elements.
            is_whole: If True, the tensor fills its storage.
        """
        if not all(
            other.storage in self._storages or self._find(elements) is not None
            for other, elements in taken
        ):
            self.computed([view.storage])
            return
        name = self._remember(tensor, short_name(operator))
        self._storages[view.storage] = name if is_whole else short_name(operator)

    def load(self, storage: int, tensor: torch.Tensor) -> None:
        """Remember a storage that was filled in parts and that a kernel now reads."""
        if operator := self._storages.get(storage):
            self._remember(tensor, operator)

    def operator_of(self, result: torch.Tensor) -> tuple[str, float]:
        """Return the operator that moved elements of a result, and the share of these elements.

        The operator is empty if there are no such elements, or if the result is trivial.
        """
        if is_trivial(result):
            return "", 0.0
        operator = self._find(result)
        if operator is not None:
            return operator, float(operator != "")
        plain = result.detach().reshape(-1)
        if not TELLING <= plain.numel() <= _MOST_ARRANGED:
            return "", 0.0
        if plain.is_floating_point():
            values = _Values(plain.double(), _close(plain.dtype))
            if values.are_different:
                operator, share = self._arranged(values, plain.dtype)
                if operator:
                    return operator, share
        return self._contained(plain)

    def _remember(self, tensor: torch.Tensor, operator: str) -> str:
        """Remember a tensor; return the operator that first made a tensor with these elements."""
        first = self._find(tensor)
        if first is not None:
            return first
        if TELLING <= tensor.numel() <= _MOST and not tensor.is_complex():
            flat = tensor.detach().clone(memory_format=torch.contiguous_format).reshape(-1)
            for key in _keys(flat):
                self._by_size.setdefault(key, []).append(len(self._tables))
            self._tables.append((flat, operator))
        return operator

    def contains(self, tensor: torch.Tensor) -> bool:
        """Return whether all values of a tensor are those of an argument or of a moved tensor.

        The values may be repeated and in a different order. The result is False for trivial tensors
        and for those with few elements, because these may be equal by coincidence.
        """
        if is_trivial(tensor) or tensor.numel() < TELLING:
            return False
        if self._find(tensor) is not None:
            return True
        if not tensor.is_floating_point() or tensor.numel() > _MOST_ARRANGED:
            return False
        plain, close = tensor.detach().reshape(-1).double(), _close(tensor.dtype)
        values, others = _Values(plain, close), _Values(plain * _CHANGED, close)
        floats = [table.double() for table, _ in self._tables if table.is_floating_point()]
        return any(
            values.share_in(table) == 1.0 and others.share_in(table) < _BY_CHANCE
            for table in floats
        )

    def _find(self, tensor: torch.Tensor) -> str | None:
        """Return the operator that made a tensor with the same elements; None if there is none.

        The operator is empty if the tensor is an argument.
        """
        plain = tensor.detach().reshape(-1)
        alike = dict.fromkeys(n for key in _keys(plain) for n in self._by_size.get(key, ()))
        for table, operator in (self._tables[n] for n in alike):
            # If an argument has a different type, it was converted, even if the elements are close.
            is_alike = operator != "" or table.dtype == plain.dtype
            if is_alike and _is_close(table, plain):
                return operator
        return None

    # ---- parts of tensors
    def _arranged(self, values: _Values, dtype: torch.dtype) -> tuple[str, float]:
        """Return the operator that rearranged floats of a result, and the share of these floats.

        The elements have the same order as in a tensor that torch made, but a different order in
        all arguments.
        """
        marks = torch.zeros_like(values.are_telling)
        largest = "", 0
        originals = [one for one, operator in self._tables if not operator]
        for table, operator in self._large(values.count):
            # If an argument has a different type, it was converted by torch or by a kernel.
            own_tables = [e for e in originals if e.dtype == dtype or table.dtype != dtype]
            places, are_clear = values.places(_as(table, dtype))
            is_in_table = places >= 0
            count, disorder = int(is_in_table.sum()), _disorder(places[is_in_table & are_clear])
            is_clear = int((is_in_table & are_clear).sum()) > count // 2
            if count < TELLING or not is_clear or disorder > _DISORDER * count:
                continue
            own = min(
                (_disorder_of(*values.places(_as(e, dtype)), is_in_table) for e in own_tables),
                default=math.inf,
            )
            if own <= _WORSE * disorder:
                continue
            marks |= is_in_table
            largest = max(largest, (operator, count), key=lambda pair: pair[1])
        return largest[0], float(marks.sum()) / max(1, int(values.are_telling.sum()))

    def _contained(self, result: torch.Tensor) -> tuple[str, float]:
        """Return the operator that made a tensor with the whole result in the same order."""
        bits = _bits(result)
        if result.numel() > _MOST_SEARCHED or len(set(bits)) < _FEWEST_DIFFERENT:
            return "", 0.0
        for one, operator in self._tables:
            if not operator and _is_subsequence(bits, _bits(_as(one, result.dtype))):
                return "", 0.0
        for one, operator in self._large(result.numel()):
            if result.numel() <= one.numel() <= _MOST_SEARCHED and _is_subsequence(
                bits, _bits(_as(one, result.dtype))
            ):
                return operator, 1.0
        return "", 0.0

    def _large(self, count: int) -> Iterator[tuple[torch.Tensor, str]]:
        """Yield the largest tensors made by torch that may contain many of `count` elements."""
        made = [pair for pair in self._tables if pair[1] and pair[0].numel() >= _SHARE * count]
        yield from sorted(made, key=lambda pair: -pair[0].numel())[:_MOST_TABLES]


class _Values:
    """The elements of a result, which are searched for in tensors.

    Args:
        values: The elements in double precision.
        close: Relative difference up to which values count as equal.

    Attributes:
        count: Number of elements of the result.
        are_telling: True for the elements that are neither zero, infinite nor NaN.
    """

    def __init__(self, values: torch.Tensor, close: float) -> None:
        self._values, self._close = values, close
        self.count = values.numel()
        self.are_telling = values.isfinite() & (values != 0)

    @property
    def are_different(self) -> bool:
        """Return whether nearly all elements are distinct."""
        telling = self._values[self.are_telling]
        return telling.numel() >= TELLING and _share_of_different(telling) >= _DIFFERENT

    def share_in(self, table: torch.Tensor) -> float:
        """Return the share of elements whose values are in a table."""
        places, _ = self.places(table)
        return float((places[self.are_telling] >= 0).double().mean())

    def places(self, table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return for each element its index in a table, and whether it occurs there only once.

        The index is -1 for elements that the table does not contain.
        """
        nowhere = torch.full((self.count,), -1, dtype=torch.int64, device="cpu")
        numbers = table.double()
        usable = (numbers.isfinite() & (numbers != 0)).nonzero().reshape(-1)
        if usable.numel() < 2:
            return nowhere, nowhere > 0
        ordered, order = numbers[usable].sort(stable=True)
        at = torch.searchsorted(ordered, self._values).clamp(1, ordered.numel() - 1)
        before, after = self._values - ordered[at - 1], ordered[at] - self._values
        nearest = torch.where(before <= after, at - 1, at)
        difference = torch.minimum(before.abs(), after.abs())
        is_in_table = self.are_telling & (difference <= self._close * self._values.abs())
        is_equal = ordered.diff() == 0
        none = torch.zeros(1, dtype=torch.bool, device="cpu")
        is_repeated = torch.cat([none, is_equal]) | torch.cat([is_equal, none])
        return torch.where(is_in_table, usable[order[nearest]], nowhere), ~is_repeated[nearest]


def _disorder(places: torch.Tensor) -> int:
    """Return the number of elements whose place is not behind that of the previous element."""
    return int((places.diff() <= 0).sum())


def _disorder_of(places: torch.Tensor, are_clear: torch.Tensor, chosen: torch.Tensor) -> float:
    """Return the disorder of chosen elements; infinite if at least a tenth have no place."""
    is_there = chosen & (places >= 0)
    missing = int(chosen.sum()) - int(is_there.sum())
    if missing * 10 >= int(chosen.sum()):
        return math.inf
    return float(_disorder(places[is_there & are_clear]))


def _share_of_different(values: torch.Tensor) -> float:
    return float((values.sort().values.diff() != 0).double().mean())


def _close(dtype: torch.dtype) -> float:
    return _CLOSE.get(dtype, _CLOSE_F32)


def _keys(tensor: torch.Tensor) -> Iterator[tuple[str, int]]:
    yield "bytes", tensor.nbytes
    if tensor.is_floating_point():
        yield "floats", tensor.numel()


def _as(table: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Return a table in the type of a result: floats stay floats, other types keep their bits."""
    if table.dtype == dtype or (table.is_floating_point() and dtype.is_floating_point):
        return table
    if table.nbytes % dtype.itemsize:
        table = table.view(torch.uint8)[: table.nbytes // dtype.itemsize * dtype.itemsize]
    return table.view(torch.uint8).view(dtype)


def _bits(tensor: torch.Tensor) -> list[int]:
    """Return the elements as integers that have the same bits."""
    kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32}.get(tensor.element_size(), torch.int64)
    bits: list[int] = tensor.contiguous().view(kind).tolist()
    return bits


def _is_subsequence(bits: list[int], table: list[int]) -> bool:
    """Return whether `table` contains the elements of `bits` in the same order."""
    following = iter(table)
    return len(bits) <= len(table) and all(bit in following for bit in bits)


def _is_close(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether two tensors have the same elements; floats may differ a little."""
    are_wide = all(e.is_floating_point() and e.element_size() >= 4 for e in (one, other))
    if one.dtype != other.dtype and not (are_wide and one.numel() == other.numel()):
        if one.nbytes != other.nbytes or other.dtype == torch.bool:
            return False
        one = one.view(torch.uint8).view(other.dtype)
    if not one.is_floating_point() or one.element_size() < 2:
        return torch.equal(one.view(torch.uint8), other.contiguous().view(torch.uint8))
    pair = one.double(), other.double()
    close = _close(one.dtype)
    return bool(torch.isclose(*pair, rtol=close, atol=0.0, equal_nan=True).all())
