"""Expressions of torch that reproduce the recorded contents of a storage bit for bit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ttools.core.spec import itemsize

if TYPE_CHECKING:
    from ttools.core.records.launch_record import Bytes, Filling, Storage

#: The largest number of elements, and the largest number of bytes, of contents that are written as
#: literal numbers.
_MOST_NUMBERS = 32
_MOST_BYTES = 256
#: The largest size in bytes of contents that are compared with random numbers.
_MOST_RANDOM = 64 << 20
#: Random numbers are generated in these types. For any other type, numbers of the first of these
#: types are generated and converted.
_DRAWN_TYPES = ("float32", "float64", "float16", "bfloat16")


@dataclass(frozen=True, kw_only=True)
class Contents:
    """The contents of a storage as elements of one type.

    Attributes:
        dtype: Element type, as torch names it without the module.
        size: Size of the storage in bytes.
        place: Address of the storage modulo `PLACE_BYTES`.
        data: The bytes; None if they are not recorded.
        filling: Description of similar numbers, if the bytes are not recorded.
    """

    dtype: str
    size: int
    place: int
    data: Bytes | None
    filling: Filling | None

    @staticmethod
    def of(storage: Storage, dtype: str) -> Contents:
        """Return the contents of a storage.

        Args:
            dtype: Presumed type of the elements; the contents are bytes if it does not fit.
        """
        is_typed = storage.size % itemsize(dtype) == 0
        return Contents(
            dtype=dtype if is_typed else "uint8",
            size=storage.size,
            place=storage.place,
            data=storage.data,
            filling=storage.filling,
        )

    @property
    def count(self) -> int:
        """Return the number of elements."""
        return self.size // _element_size(self.dtype)

    @property
    def elements(self) -> Any:
        """Return the recorded elements as a tensor of one dimension."""
        import torch

        return _bytes_of(self.data).clone().view(getattr(torch, self.dtype))

    def equals(self, tensor: Any) -> bool:
        """Return whether a tensor has the type and exactly the bits of the contents."""
        import torch

        if tensor.dtype is not getattr(torch, self.dtype) or tensor.numel() != self.count:
            return False
        made = tensor.contiguous().reshape(-1).view(torch.uint8)
        return bool(torch.equal(made, _bytes_of(self.data)))


def _element_size(dtype: str) -> int:
    import torch

    return int(getattr(torch, dtype).itemsize)


def _bytes_of(data: Any) -> Any:
    import torch

    return torch.from_numpy(data)


def recipe_of(contents: Contents) -> str | None:
    """Return an expression for a tensor of one dimension with the contents.

    Returns:
        None if only the recorded bytes themselves reproduce the contents.
    """
    if contents.filling is not None:
        return _similar(contents.filling, contents)
    for text, make in _candidates(contents):
        try:
            if contents.equals(make()):
                return text
        except (RuntimeError, ValueError, TypeError, OverflowError):
            continue  # torch cannot make such a tensor of this type
    if contents.size <= _MOST_BYTES:
        inner = contents.data.tobytes().hex() if contents.data is not None else ""
        return (
            f'torch.tensor(list(bytes.fromhex("{inner}")), dtype=torch.uint8)'
            f".view(torch.{contents.dtype})"
        )
    return None


def _candidates(contents: Contents) -> Iterator[tuple[str, Callable[[], Any]]]:
    import torch

    count, name = contents.count, contents.dtype
    dtype = getattr(torch, name)
    if count == 0:
        yield (
            f"torch.empty(0, dtype=torch.{name})",
            lambda: torch.empty(0, dtype=dtype, device="cpu"),
        )
        return
    elements = contents.elements
    first = elements[0].item()
    if first == 0:
        yield (
            f"torch.zeros({count}, dtype=torch.{name})",
            lambda: torch.zeros(count, dtype=dtype, device="cpu"),
        )
    if first == 1:
        yield (
            f"torch.ones({count}, dtype=torch.{name})",
            lambda: torch.ones(count, dtype=dtype, device="cpu"),
        )
    yield (
        f"torch.full(({count},), {_number(first)}, dtype=torch.{name})",
        lambda: torch.full((count,), first, dtype=dtype, device="cpu"),
    )
    if count > 2 and isinstance(first, (int, float)) and math.isfinite(first):
        step = elements[1].item() - first
        if int(first) == first and math.isfinite(step) and int(step) == step != 0:
            yield from _ranges(int(first), int(step), count, name)
    if count <= _MOST_NUMBERS:
        numbers = elements.tolist()
        listed = ", ".join(map(_number, numbers))
        yield (
            f"torch.tensor([{listed}], dtype=torch.{name})",
            lambda: torch.tensor(numbers, dtype=dtype, device="cpu"),
        )


def _ranges(
    first: int, step: int, count: int, name: str
) -> Iterator[tuple[str, Callable[[], Any]]]:
    import torch

    dtype = getattr(torch, name)
    end = first + step * count
    words = f"{end}" if (first, step) == (0, 1) else f"{first}, {end}, {step}"
    yield (
        f"torch.arange({words}, dtype=torch.{name})",
        lambda: torch.arange(first, end, step, dtype=dtype, device="cpu"),
    )
    yield (
        f"torch.arange({words}).to(torch.{name})",
        lambda: torch.arange(first, end, step, device="cpu").to(dtype),
    )


def _number(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f"float({str(value)!r})"
    return repr(value)


def _similar(filling: Filling, contents: Contents) -> str:
    """Return an expression for similar random numbers, for contents that are not recorded."""
    count = contents.size // _element_size(filling.dtype)
    generator = f"generator=torch.Generator().manual_seed({filling.seed})"
    if filling.kind == "constant":
        value = filling.first if "float" in filling.dtype else int(filling.first)
        made = f"torch.full(({count},), {value!r}, dtype=torch.{filling.dtype})"
    elif filling.kind == "normal":
        drawn = f"torch.randn({count}, {generator})"
        made = f"({drawn} * {filling.second!r} + {filling.first!r}).to(torch.{filling.dtype})"
    else:
        ends = f"{int(filling.first)}, {int(filling.second) + 1}"
        made = f"torch.randint({ends}, ({count},), {generator}).to(torch.{filling.dtype})"
    return made if filling.dtype == contents.dtype else f"{made}.view(torch.{contents.dtype})"


class RandomDraws:
    """Recognises contents that a program drew from torch's generator for the CPU.

    The first numbers that the generator returns can be drawn again and compared with the contents.

    Args:
        seed: Seed of the generator.
    """

    def __init__(self, seed: int) -> None:
        import torch

        self._generator = torch.Generator().manual_seed(seed)

    def found(self, contents: Mapping[int, Contents]) -> dict[int, str]:
        """Return expressions for the contents that are recognised, in the order of their draws.

        Args:
            contents: Contents of storages by number.
        """
        rest = {
            number: one
            for number, one in contents.items()
            if one.data is not None and 0 < one.size <= _MOST_RANDOM and "float" in one.dtype
        }
        texts: dict[int, str] = {}
        while True:
            number, text = next(self._next(rest), (None, ""))
            if number is None:
                return texts
            texts[number] = text
            del rest[number]

    def _next(self, rest: Mapping[int, Contents]) -> Iterator[tuple[int, str]]:
        """Yield the number and expression of contents that the next random numbers reproduce."""
        import torch

        state = self._generator.get_state()
        for number, contents in rest.items():
            dtype = getattr(torch, contents.dtype)
            for function in ("randn", "rand"):
                for drawn in dict.fromkeys((contents.dtype, "float32")):
                    if drawn not in _DRAWN_TYPES:
                        continue
                    self._generator.set_state(state)
                    make = getattr(torch, function)
                    kind = getattr(torch, drawn)
                    made = make(contents.count, dtype=kind, generator=self._generator)
                    if contents.equals(made.to(dtype)):
                        words = f"{contents.count}, dtype=torch.{drawn}, generator=generator"
                        converted = (
                            "" if drawn == contents.dtype else f".to(torch.{contents.dtype})"
                        )
                        yield number, f"torch.{function}({words}){converted}"
                        return
        self._generator.set_state(state)
