"""Textual arguments for the kernel of a `.ttir` file, such as `rand:f32[1024]`.

This module parses the text and creates the arrays.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttools.core.errors import UsageError
from ttools.ir.numpy_types import numpy_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

# Alternative names of element types, as used by NumPy, torch and Triton.
_ALIASES = {
    **{f"int{width}": f"i{width}" for width in (1, 8, 16, 32, 64)},
    **{f"u{width}": f"i{width}" for width in (8, 16, 32, 64)},
    **{f"uint{width}": f"i{width}" for width in (8, 16, 32, 64)},
    **{f"{name}{width}": f"f{width}" for name in ("float", "fp") for width in (16, 32, 64)},
    "bool": "i1",
    "bfloat16": "bf16",
    "fp8e4nv": "f8E4M3FN",
    "fp8e5": "f8E5M2",
    "float8_e4m3fn": "f8E4M3FN",
    "float8_e5m2": "f8E5M2",
}

_GENERATED = re.compile(
    r"(?P<kind>[a-z]+)(?:\((?P<value>[^()]*)\))?:(?P<type>\w+)\[(?P<shape>[0-9\s,x]*)\]"
)
_FILE = re.compile(r"(?P<path>.*\.np[yz])(?::(?P<key>.+))?", re.DOTALL)
_EXAMPLE = "write a tensor as rand:f32[1024], full(3):f16[4,4] or data.npy"

#: The value of each byte of `empty` memory. Results of a kernel that reads such memory look wrong.
_POISON = 0xCD
_ALIGNMENT = 64
#: The largest number of dimensions that NumPy 1 supports.
_MOST_DIMENSIONS = 32
_MOST_DIGITS = 18
_ADDRESSABLE = 1 << 62


def make_array(text: str, name: str, element: str) -> Array:
    """Return the array that `text` describes; it is aligned and contiguous.

    Args:
        text: `rand:`, `randn:`, `zeros:`, `ones:`, `empty:`, `arange:` or `full(VALUE):` followed
            by `TYPE[SHAPE]`, or the path of a `.npy` file, or `FILE.npz:KEY`. The seed of random
            numbers depends only on the parameter's name. `rand` generates floats in [0, 1) and
            integers in [0, 100).
        name: Name of the parameter.
        element: MLIR text of the parameter's element type.

    Raises:
        UsageError: The text is invalid, or describes an array of a different type.
    """
    dtype = numpy_type(element)
    try:
        if dtype is None:
            raise UsageError(f"a tensor of {element} cannot be given as text or a file; {_EXAMPLE}")
        generated = _GENERATED.fullmatch(text.strip())
        if generated is not None:
            return _generate(generated, name, element, dtype)
        file = _FILE.fullmatch(text.strip())
        if file is not None:
            return _read(file["path"], file["key"], element, dtype)
        raise UsageError(f"`{text}` is not a tensor of {element}; {_EXAMPLE}")
    except UsageError as error:
        raise UsageError(f"argument `{name}`: {error}") from error.__cause__


# ---- generated arrays


@dataclass(frozen=True)
class _Request:
    """An array to generate.

    Attributes:
        shape: Shape of the array.
        dtype: NumPy type of the elements.
        value: The argument of `full`; None for other generators.
        seed: Seed of random numbers.
    """

    shape: tuple[int, ...]
    dtype: Any
    value: str | None
    seed: int


def _rand(request: _Request) -> Any:
    import numpy as np

    random = np.random.default_rng(request.seed)
    if _is_float(request.dtype):
        return random.random(request.shape)
    high = 2 if request.dtype == np.bool_ else 100
    return random.integers(0, high, request.shape)


def _randn(request: _Request) -> Any:
    import numpy as np

    if not _is_float(request.dtype):
        raise UsageError("randn generates only floating-point numbers; use rand for integers")
    return np.random.default_rng(request.seed).standard_normal(request.shape)


def _arange(request: _Request) -> Any:
    import numpy as np

    return np.arange(prod(request.shape)).reshape(request.shape)


def _full(request: _Request) -> Any:
    if not request.value:
        raise UsageError("full needs a value, as in full(3):f32[16]")
    return _number(request.value, request.dtype)


_GENERATORS: dict[str, Callable[[_Request], Any]] = {
    "rand": _rand,
    "randn": _randn,
    "zeros": lambda request: 0,
    "ones": lambda request: 1,
    "empty": lambda request: None,
    "arange": _arange,
    "full": _full,
}


def _generate(match: re.Match[str], name: str, element: str, dtype: Any) -> Array:
    kind = match["kind"]
    generator = _GENERATORS.get(kind)
    if generator is None:
        raise UsageError(f"there is no generator `{kind}`; choose from {', '.join(_GENERATORS)}")
    if match["value"] is not None and kind != "full":
        raise UsageError(f"{kind} does not take a value in brackets; only full does")
    type_name = _ALIASES.get(match["type"], match["type"])
    if numpy_type(type_name) is None:
        raise UsageError(f"unknown element type `{match['type']}`")
    if type_name != element:
        raise UsageError(f"the kernel expects a tensor of {element}, not {type_name}")
    array = _aligned(_shape(match["shape"], dtype.itemsize), dtype)
    seed = zlib.crc32(name.encode(errors="surrogateescape"))
    try:
        value = generator(_Request(array.shape, dtype, match["value"], seed))
        if value is not None:
            array[...] = value if not hasattr(value, "astype") else value.astype(dtype)
    except MemoryError as error:
        raise UsageError(f"not enough memory for a tensor of shape {array.shape}") from error
    return array


def _shape(text: str, itemsize: int) -> tuple[int, ...]:
    """Return the shape that the text in square brackets describes.

    Raises:
        UsageError: There are more extents than NumPy supports, or the tensor cannot fit in memory.
    """
    words = [word for word in re.split(r"[\s,x]+", text) if word]
    if len(words) > _MOST_DIMENSIONS:
        raise UsageError(
            f"a tensor of {len(words)} dimensions; at most {_MOST_DIMENSIONS} are allowed"
        )
    if any(len(word) > _MOST_DIGITS for word in words):
        raise UsageError(f"an extent has more than {_MOST_DIGITS} digits")
    shape = tuple(int(word) for word in words)
    # NumPy multiplies all extents, so their product may be too large even if a different extent is
    # 0.
    if prod(extent for extent in shape if extent) * itemsize >= _ADDRESSABLE:
        raise UsageError(f"not enough memory for a tensor of shape {shape}")
    return shape


def _aligned(shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an array filled with `_POISON`, at an address that is aligned for all vector loads."""
    import numpy as np

    size = prod(shape) * dtype.itemsize
    try:
        buffer = np.full(size + _ALIGNMENT, _POISON, np.uint8)
    except (MemoryError, OverflowError, ValueError) as error:
        raise UsageError(f"not enough memory for a tensor of {size:,} bytes") from error
    start = -buffer.ctypes.data % _ALIGNMENT
    array: Array = buffer[start : start + size].view(dtype).reshape(shape)
    return array


def _is_float(dtype: Any) -> bool:
    return dtype.kind not in "biu"


# ---- arrays from files


def _read(path: str, key: str | None, element: str, dtype: Any) -> Array:
    import numpy as np

    try:
        loaded = np.load(Path(path).expanduser(), allow_pickle=False)
    except Exception as error:
        # NumPy evaluates headers and unpacks archives, which may raise any exception.
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise UsageError(f"cannot read {path}: {reason}") from error
    if isinstance(loaded, np.ndarray):
        if key is not None:
            raise UsageError(f"{path} contains a single array without a name; remove `:{key}`")
        array = loaded
    else:
        array = _member(loaded, path, key)
    return _typed(array, path, element, dtype)


def _member(archive: Any, path: str, key: str | None) -> Array:
    with archive:
        if key is None and len(archive.files) == 1:
            key = archive.files[0]
        if key not in archive.files:
            wanted = (
                f"name one of its arrays, as in {path}:KEY"
                if key is None
                else f"has no array `{key}`"
            )
            keys = ", ".join(archive.files) or "none"
            raise UsageError(f"{path}: {wanted}; it contains {keys}")
        try:
            member: Array = archive[key]
        except Exception as error:
            reason = str(error) or type(error).__name__
            raise UsageError(f"{path}: cannot read `{key}`: {reason}") from error
        return member


def _typed(array: Array, path: str, element: str, dtype: Any) -> Array:
    same_bits = array.dtype.itemsize == dtype.itemsize and (
        # NumPy's files have no name for bf16 and fp8; their elements have the kind V. Signed and
        # unsigned integers have the same bits.
        array.dtype.kind == "V" or (array.dtype.kind in "iu" and dtype.kind in "iu")
    )
    if array.dtype != dtype and not same_bits:
        raise UsageError(
            f"{path} contains {array.dtype}, but the kernel expects a tensor of {element}"
        )
    copy = _aligned(array.shape, dtype)
    copy[...] = array.view(dtype) if array.dtype != dtype else array
    return copy


# ---- scalars


def make_scalar(text: str, name: str, element: str) -> int | float | bool:
    """Return the number that `text` represents, in the range of the parameter's type.

    Raises:
        UsageError: The text is not a number, or the number is out of range.
    """
    try:
        return _number(text, numpy_type(element))
    except UsageError as error:
        raise UsageError(f"argument `{name}` ({element}): {error}") from None


def _number(text: str, dtype: Any) -> int | float | bool:
    word = text.strip().lower()
    if word in ("true", "false"):
        return word == "true"
    try:
        if _is_float(dtype):
            return float(word)
        number = int(word, 0)
    except ValueError:
        kind = "a number" if _is_float(dtype) else "an integer"
        raise UsageError(f"`{text}` is not {kind}") from None
    bits = 1 if dtype.kind == "b" else 8 * dtype.itemsize
    if not -(1 << bits - 1) <= number < 1 << bits:
        raise UsageError(f"{text} does not fit in {bits} bits")
    return number if number < 1 << bits - 1 or bits == 1 else number - (1 << bits)
