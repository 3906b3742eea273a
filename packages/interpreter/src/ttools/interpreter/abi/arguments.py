"""Conversion of a kernel's Python arguments to the 64-bit parameter slots that native code reads.

Tuples and tensor descriptors are flattened, constexprs are dropped, and a scalar becomes its bit
pattern in the type of the parameter. Pointers become addresses, which are not dereferenced here.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ttools.core.errors import TtoolsError, UsageError
from ttools.core.triton_versions import (
    Signature,
    descriptor_block,
    descriptor_types,
    descriptor_values,
    is_descriptor,
)

_MASK64 = 0xFFFF_FFFF_FFFF_FFFF


def _integer(value: Any) -> int:
    return int(value) & _MASK64


def _boolean(value: Any) -> int:
    return int(bool(value))


def _fp16(value: Any) -> int:
    return int.from_bytes(struct.pack("<e", value), "little")


def _fp32(value: Any) -> int:
    # ctypes converts a value that is too large for f32 to infinity, as C does; struct raises an
    # exception.
    return int.from_bytes(bytes(ctypes.c_float(value)), "little")


def _bf16(value: Any) -> int:
    # Triton's launcher for NVIDIA GPUs (`pack_bf16`) truncates the low half instead of rounding.
    return _fp32(value) >> 16


def _fp64(value: Any) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


def _pointer(value: Any) -> int:
    try:
        address = value.data_ptr()
    except AttributeError:
        address = 0 if value is None else value
    if not isinstance(address, int):
        raise TypeError(f"a pointer must be a tensor, have data_ptr(), or be an int: {value!r}")
    if address == 0 and value is not None:
        _check_memory(value)
    return address & _MASK64


def _check_memory(value: Any) -> None:
    """Reject a tensor that has elements but no memory; the first access to it would crash."""
    size = getattr(value, "numel", None)
    if size is None or size() == 0:
        return
    device = getattr(value, "device", None)
    if getattr(device, "type", None) == "meta":
        raise ValueError("a tensor on the meta device has no memory")
    if not _is_freed(value):
        raise ValueError("the tensor has no memory, because it is a fake tensor")


def _is_freed(value: Any) -> bool:
    """Return whether a tensor has elements but its storage was resized to 0 bytes."""
    try:
        return bool(value.numel() > 0 and value.untyped_storage().nbytes() == 0)
    except AttributeError:  # another library's pointer, which has only some of these attributes
        return False


_SCALARS: dict[str, Callable[[Any], int]] = {
    **{f"{sign}{width}": _integer for sign in "iu" for width in (8, 16, 32, 64)},
    **dict.fromkeys(("i1", "u1"), _boolean),
    "fp16": _fp16,
    "bf16": _bf16,
    "fp32": _fp32,
    "f32": _fp32,
    "fp64": _fp64,
}


class ArgumentPlan:
    """The conversion of Python arguments to native parameters for one compiled kernel.

    Args:
        names: The names of the kernel's Python parameters.
        signature: Triton's type of each Python parameter.

    Attributes:
        names: The name of each native parameter, in the order of the slots.
        types: Triton's type of each native parameter.
        pointers: The indices of the slots that hold pointers.
        descriptors: One entry per tensor descriptor made on the host: its first slot, its number
            of dimensions, and the shape of its block. Its slots begin with base, shape and
            strides.
    """

    def __init__(self, names: Sequence[str], signature: Sequence[Signature]) -> None:
        self._signature = tuple(signature)
        leaves = list(_leaves(zip(names, signature, strict=True)))
        self.types = tuple(type_name for _, type_name in leaves)
        self.names = tuple(name for name, _ in leaves)
        self._convert = tuple(_converter(name, type_name) for name, type_name in leaves)
        self.pointers = frozenset(i for i, t in enumerate(self.types) if t.startswith("*"))
        self._numbers = tuple(
            (i, convert) for i, convert in enumerate(self._convert) if i not in self.pointers
        )
        self.descriptors = tuple(_descriptors(self._signature))
        # Most kernels have neither tuples nor descriptors. Each slot is then exactly one Python
        # argument, so flattening only needs the index of that argument.
        self._direct: tuple[int, ...] | None = None
        if all(isinstance(s, str) and not is_descriptor(s) for s in self._signature):
            self._direct = tuple(i for i, s in enumerate(self._signature) if s != "constexpr")

    def check(self, parameters: Sequence[str]) -> None:
        """Check that the plan agrees with the compiled function's parameters.

        Args:
            parameters: The MLIR type of each parameter, as text.

        Raises:
            TtoolsError: If the parameters differ from the plan, which means that this version of
                Triton passes arguments differently from what ttools expects.
        """
        expected = [t.startswith("*") for t in self.types]
        if [t.startswith("!tt.ptr") for t in parameters] != expected:
            raise TtoolsError(
                f"the kernel has parameters ({', '.join(parameters)}), but Triton's signature has "
                f"({', '.join(self.types)}); this is a bug in ttools; please report it"
            )

    def flatten(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the arguments that become native parameters, in the order of the slots.

        Raises:
            UsageError: If there are too few arguments, which can happen when a compiled kernel is
                launched directly.
        """
        if self._direct is not None:
            try:
                return list(map(arguments.__getitem__, self._direct))
            except IndexError:
                raise UsageError(
                    f"the kernel takes {len(self._signature)} arguments, including constants, "
                    f"but {len(arguments)} were passed; pass all of them"
                ) from None
        flat: list[Any] = []
        for argument, type_name in zip(arguments, self._signature, strict=True):
            _flatten(argument, type_name, flat)
        return flat

    def pack(self, flat: Sequence[Any], *, guarded: bool = False) -> list[int]:
        """Return the raw 64-bit values of flattened arguments.

        Args:
            flat: The arguments that `flatten` returned.
            guarded: If True, the kernel skips accesses outside storages, so a tensor whose storage
                is empty is accepted.

        Raises:
            UsageError: If an argument does not fit its parameter's type or has no memory.
        """
        try:
            raw = [convert(value) for convert, value in zip(self._convert, flat, strict=True)]
        except (TypeError, ValueError, OverflowError, struct.error):
            raise self._misfit(flat) from None
        if not guarded and 0 in raw:
            self.require_memory(flat)
        return raw

    def repack(self, flat: Sequence[Any], raw: Sequence[int]) -> list[int]:
        """Return the raw values of arguments that have the same pointers as an earlier launch.

        Args:
            flat: The arguments that `flatten` returned.
            raw: The values that `pack` returned for the earlier launch; its addresses are reused.

        Raises:
            UsageError: If an argument does not fit its parameter's type.
        """
        again = list(raw)
        try:
            for index, convert in self._numbers:
                again[index] = convert(flat[index])
        except (TypeError, ValueError, OverflowError, struct.error):
            raise self._misfit(flat) from None
        return again

    def require_memory(self, flat: Sequence[Any]) -> None:
        """Reject tensors whose storage was freed, because the first access to them would crash.

        Raises:
            UsageError: If a tensor has no memory; the message names the argument.
        """
        for index in sorted(self.pointers):
            if _is_freed(flat[index]):
                raise UsageError(
                    f"argument `{self.names[index]}` ({self.types[index]}): the tensor has no "
                    "memory, because its storage was resized to 0 bytes"
                )

    def _misfit(self, flat: Sequence[Any]) -> UsageError:
        for name, type_name, convert, value in zip(
            self.names, self.types, self._convert, flat, strict=True
        ):
            try:
                convert(value)
            except (TypeError, ValueError, OverflowError, struct.error) as error:
                return UsageError(f"argument `{name}` ({type_name}): {error}")
        return UsageError("an argument was modified by another thread while it was read")


def _converter(name: str, type_name: str) -> Callable[[Any], int]:
    if type_name.startswith("*"):
        return _pointer
    try:
        return _SCALARS[type_name]
    except KeyError:
        raise UsageError(
            f"argument `{name}`: no kernel parameter can have type {type_name}"
        ) from None


def _leaves(parameters: Iterable[tuple[str, Signature]]) -> Iterable[tuple[str, str]]:
    """Yield the name and the type of each native parameter."""
    for name, type_name in parameters:
        if isinstance(type_name, tuple):
            yield from _leaves(zip(_parts(name, type_name), type_name, strict=True))
        elif is_descriptor(type_name):
            yield from ((name, inner) for inner in descriptor_types(type_name))
        elif type_name != "constexpr":
            yield name, type_name


def _descriptors(signature: Iterable[Signature]) -> Iterable[tuple[int, int, tuple[int, ...]]]:
    """Yield an entry of `ArgumentPlan.descriptors` for each tensor descriptor of a signature."""
    slot = 0
    pending = list(signature)
    while pending:
        type_name = pending.pop(0)
        if isinstance(type_name, tuple):
            pending[:0] = type_name
        elif is_descriptor(type_name):
            slots = descriptor_types(type_name)
            yield slot, slots.count("i32"), descriptor_block(type_name)
            slot += len(slots)
        elif type_name != "constexpr":
            slot += 1


def _parts(name: str, types: tuple[Any, ...]) -> list[str]:
    """Return, for each element of a tuple, the expression by which a kernel reads it.

    Triton keeps the class of a named tuple, so its elements are read by field name.
    """
    fields = getattr(types, "_fields", None)
    if fields is None:
        return [f"{name}[{index}]" for index in range(len(types))]
    return [f"{name}.{field}" for field in fields]


def _flatten(argument: Any, type_name: Signature, flat: list[Any]) -> None:
    if isinstance(type_name, tuple):
        for inner, inner_type in zip(argument, type_name, strict=True):
            _flatten(inner, inner_type, flat)
    elif is_descriptor(type_name):
        flat += descriptor_values(argument)
    elif type_name != "constexpr":
        flat.append(argument)
