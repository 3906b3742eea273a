"""Contents of recorded storages: their bytes, or a description for generating similar numbers."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ttools.core.errors import UsageError
from ttools.core.records.launch_record import PLACE_BYTES, Bytes, Filling, Storage
from ttools.interpreter.runtime.snapshot import memory

Data: TypeAlias = Literal["full", "seed", "auto"]

#: `auto` records the contents of storages up to this total number of bytes per record.
KEPT_BYTES = 256 << 20
#: The torch names of the types whose numbers can be generated. For other types, the bytes are
#: always kept.
_INTEGERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float16", "float32", "float64")
_SMALL_FLOATS = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")


def contents_of(
    start: int, end: int, dtype: str, data: Data, held: int, seed: int
) -> Bytes | Filling:
    """Return the contents to record for a storage.

    Args:
        start, end: First address of the storage and the address after its last byte.
        dtype: Presumed type of the elements.
        data: The user's choice, see `launch_recorder.record`.
        held: Number of bytes that the record already contains.
        seed: Seed of the generated numbers.
    """
    is_small = held + end - start <= KEPT_BYTES
    if data == "full" or (data == "auto" and (is_small or dtype in _INTEGERS)):
        return _copy(start, end)
    element_type = numpy_type(dtype)
    if element_type is None or (end - start) % element_type.itemsize or start == end:
        return _copy(start, end)
    return _like(memory(start, end).view(element_type), dtype, seed)


def _copy(start: int, end: int) -> Bytes:
    copy: Bytes = memory(start, end).copy()
    return copy


def numpy_type(dtype: str) -> np.dtype[Any] | None:
    """Return the NumPy type for the name of a torch type; None if there is none."""
    if dtype in (*_INTEGERS, *_FLOATS):
        return np.dtype(dtype)
    if dtype in _SMALL_FLOATS:
        import ml_dtypes

        element_type: np.dtype[Any] = np.dtype(getattr(ml_dtypes, dtype))
        return element_type
    return None


def _like(values: NDArray[Any], dtype: str, seed: int) -> Filling:
    if dtype in _INTEGERS:
        # View bools as bytes, because memory may contain bools that are neither 0 nor 1.
        whole = values.view(np.uint8) if dtype == "bool" else values
        first, last = float(whole.min()), float(whole.max())
        kind: Literal["constant", "uniform"] = "constant" if first == last else "uniform"
        return Filling(kind=kind, dtype=dtype, first=first, second=last, seed=seed)
    wide = values.astype(np.float64)
    finite = wide[np.isfinite(wide)]
    if not finite.size:
        return Filling(kind="constant", dtype=dtype, first=0.0)
    mean, deviation = float(finite.mean()), float(finite.std())
    if deviation == 0:
        return Filling(kind="constant", dtype=dtype, first=mean)
    return Filling(kind="normal", dtype=dtype, first=mean, second=deviation, seed=seed)


def make_storage(storage: Storage) -> Bytes:
    """Return memory with the contents of a recorded storage, at an address of the same alignment.

    Raises:
        UsageError: There is not enough memory, or the description of the numbers is invalid.
    """
    try:
        buffer = np.empty(storage.size + 2 * PLACE_BYTES, np.uint8)
    except MemoryError:
        raise UsageError(f"not enough memory for a storage of {storage.size:,} bytes") from None
    skipped = (storage.place - buffer.ctypes.data) % PLACE_BYTES
    made: Bytes = buffer[skipped : skipped + storage.size]
    if storage.data is not None:
        made[:] = storage.data
    elif storage.filling is not None:
        made[:] = _filled(storage.filling, storage.size).view(np.uint8)
    return made


def _filled(filling: Filling, size: int) -> NDArray[Any]:
    dtype = numpy_type(filling.dtype)
    if dtype is None or size % dtype.itemsize:
        raise UsageError(
            f"the record is damaged: numbers of type {filling.dtype} do not fit in a storage"
        )
    count = size // dtype.itemsize
    random = np.random.default_rng(filling.seed)
    with np.errstate(all="ignore"):
        if filling.kind == "normal":
            numbers = random.standard_normal(count, np.float32)
            return (filling.first + filling.second * numbers).astype(dtype)
        if filling.kind == "uniform":
            return _whole(random, filling, count, dtype)
        return np.full(count, filling.first).astype(dtype)


def _whole(
    random: np.random.Generator, filling: Filling, count: int, dtype: np.dtype[Any]
) -> NDArray[Any]:
    plain = np.dtype(np.uint8) if dtype == np.bool_ else dtype
    limits = np.iinfo(plain)
    first, last = (
        min(max(int(number), int(limits.min)), int(limits.max))
        for number in (filling.first, filling.second)
    )
    if first > last:
        raise UsageError("the record is damaged: a range of numbers is empty")
    return random.integers(first, last, count, plain, endpoint=True)
