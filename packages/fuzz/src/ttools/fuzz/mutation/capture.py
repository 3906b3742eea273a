"""Capture of a script's launches, with their memory, so that they can be repeated.

A captured launch consists of a `@triton.jit` function, whose source is known, and its arguments.
Tensors are views of storages, so that aliases are preserved. `ttools record` cannot be used
instead, because it stores TTIR and not the source.
"""

from __future__ import annotations

import inspect
import runpy
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ttools.core import launch_path
from ttools.core.patches import Patches
from ttools.core.spec import TensorSpec, memory_spec, tensor_on, whole_storage

#: Maximum number of launches per kernel that differ in what is compiled for them.
_MOST_OF_A_KERNEL = 3
#: Larger launches take too long to be repeated several hundred times.
_MOST_BYTES, _MOST_PROGRAMS = 4 << 20, 1024
_NUMBERS = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class CapturedDescriptor:
    """A tensor descriptor made by the host.

    Attributes:
        like: Triton's descriptor without its tensor.
        base: The tensor that the descriptor describes.
    """

    like: Any
    base: TensorSpec


@dataclass(frozen=True, eq=False)
class CapturedCall:
    """One launch of a kernel.

    Attributes:
        function: The `@triton.jit` function that is launched.
        arguments: Arguments by name. Tensors are `TensorSpec`, whose storages are indices into
            `storages`; descriptors are `CapturedDescriptor`; tuples contain such values.
        storages: The bytes of each storage, as tensors.
        grid: The three extents of the grid.
        options: Launch options such as `num_warps`.
    """

    function: Any
    arguments: Mapping[str, Any]
    storages: tuple[Any, ...]
    grid: tuple[int, int, int]
    options: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.function.__name__)

    def tensors(self) -> Iterator[tuple[str, TensorSpec]]:
        """Yield the tensors among the arguments, with names such as `x_ptr` or `pair[1]`."""
        for name, value in self.arguments.items():
            for place, leaf in leaves(name, value):
                if isinstance(leaf, CapturedDescriptor):
                    yield place, leaf.base
                elif isinstance(leaf, TensorSpec):
                    yield place, leaf

    def start(
        self,
        function: Any,
        *,
        grid: tuple[int, int, int] | None = None,
        more: Mapping[str, Any] | None = None,
        storages: tuple[Any, ...] | None = None,
        **options: Any,
    ) -> tuple[tuple[Any, ...], Any]:
        """Launch the kernel, or another function in its place.

        Args:
            function: The kernel, or a mutant of it.
            grid: Grid of the launch; None for the captured one.
            more: Further arguments, or new values for captured arguments.
            storages: Memory to run on; None for copies of the captured memory.
            options: Launch options in addition to the captured ones.

        Returns:
            The storages after the launch, and the compiled kernel.
        """
        made = storages or tuple(storage.clone() for storage in self.storages)
        arguments = {name: _argument(value, made) for name, value in self.arguments.items()}
        arguments |= more or {}
        options = {**self.options, **options, "grid": grid or self.grid, "warmup": False}
        return made, function.run(**arguments, **options)


@dataclass
class Captured:
    """The launches that were captured from a script.

    Attributes:
        launches: Launches that can be repeated.
        left_out: Reason why other launches were not captured, by name of the kernel.
    """

    launches: list[CapturedCall] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    _forms: dict[str, set[object]] = field(default_factory=dict)

    def add(self, function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Capture a launch, unless enough launches of its kernel are captured already."""
        if kwargs.get("warmup"):
            return
        name = str(getattr(function, "__name__", function))
        forms = self._forms.setdefault(name, set())
        if len(forms) >= _MOST_OF_A_KERNEL:
            return
        try:
            launch = _captured(function, args, kwargs)
        except _LeftOutError as why:
            self.left_out[name] = str(why)
            return
        form = (str(launch.options), str([_form(v) for v in launch.arguments.values()]))
        if form not in forms:
            forms.add(form)
            self.launches.append(launch)


class _LeftOutError(Exception):
    """A launch cannot be repeated, or takes too long."""


def capture(run: Callable[[], object]) -> Captured:
    """Capture the launches that a function makes, on the engine and on CPU tensors."""
    from ttools.interpreter import interpret

    captured = Captured()
    with Patches() as patches, interpret():
        launch_path.observe(patches, launch_path.CALL, before=captured.add)
        run()
    return captured


def capture_script(path: str | Path) -> Captured:
    """Capture the launches of a script."""
    return capture(lambda: runpy.run_path(str(path), run_name="__main__"))


def _captured(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CapturedCall:
    names = list(function.arg_names)
    bound: dict[str, Any] = dict(zip(names, args, strict=False))
    bound |= {name: value for name, value in kwargs.items() if name in names}
    for name, parameter in function.signature.parameters.items():
        if name not in bound and parameter.default is not inspect.Parameter.empty:
            bound[name] = parameter.default
    options = {k: v for k, v in kwargs.items() if k not in names and k not in ("grid", "warmup")}
    grid = _grid(kwargs["grid"], bound)
    if prod(grid) > _MOST_PROGRAMS or not prod(grid):
        raise _LeftOutError(f"{prod(grid):,} programs")
    storages: dict[int, int] = {}
    contents: list[Any] = []
    arguments = {
        name: _described(bound[name], storages, contents) for name in names if name in bound
    }
    return CapturedCall(function, arguments, tuple(contents), grid, options)


def _grid(grid: Any, bound: Mapping[str, Any]) -> tuple[int, int, int]:
    extents = grid(dict(bound)) if callable(grid) else grid
    sizes = [int(n) for n in (extents if isinstance(extents, Iterable) else (extents,))]
    x, y, z = [*sizes, 1, 1][:3]
    return x, y, z


def _described(value: Any, storages: dict[int, int], contents: list[Any]) -> Any:
    """Describe an argument, and append the bytes of new storages to `contents`."""
    import torch

    if isinstance(value, torch.Tensor):
        storage = value.untyped_storage()
        address = storage.data_ptr()
        if address not in storages:
            if sum(s.numel() for s in contents) + storage.nbytes() > _MOST_BYTES:
                raise _LeftOutError("it uses more memory than mutation allows")
            storages[address] = len(contents)
            contents.append(whole_storage(storage).detach().cpu().clone())
        described = memory_spec(value)
        assert described is not None
        return replace(described, storage=storages[address])
    if callable(getattr(value, "data_ptr", None)):
        return _described(_view_of(value), storages, contents)
    kind = type(value)
    if kind.__name__ == "TensorDescriptor" and isinstance(value.base, torch.Tensor):
        like = copy(value)
        like.base = None
        return CapturedDescriptor(like, _described(value.base, storages, contents))
    if isinstance(value, tuple):
        return _like_tuple(value, [_described(part, storages, contents) for part in value])
    if isinstance(value, _NUMBERS) or kind.__name__ in ("dtype", "constexpr", "JITFunction"):
        return value
    raise _LeftOutError(f"an argument of type {kind.__name__}")


def _view_of(value: Any) -> Any:
    """Return a tensor of the memory from an object's address up to the end of the storage.

    Libraries pass wrapper classes of their own, of which Triton reads only an address and a type.
    """
    import torch

    address = value.data_ptr()
    for part in getattr(value, "__dict__", {}).values():
        if isinstance(part, torch.Tensor):
            storage = part.untyped_storage()
            offset = address - storage.data_ptr()
            if 0 <= offset < storage.nbytes():
                made = torch.empty(0, dtype=value.dtype, device=part.device)
                size = made.element_size()
                return made.set_(
                    storage, offset // size, ((storage.nbytes() - offset) // size,), (1,)
                )
    raise _LeftOutError(f"an argument of type {type(value).__name__}")


def _argument(value: Any, storages: tuple[Any, ...]) -> Any:
    if isinstance(value, CapturedDescriptor):
        descriptor = copy(value.like)
        descriptor.base = _argument(value.base, storages)
        return descriptor
    if isinstance(value, tuple):
        return _like_tuple(value, [_argument(part, storages) for part in value])
    if not isinstance(value, TensorSpec):
        return value
    return tensor_on(storages[value.storage].untyped_storage(), value)


def leaves(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield a name and a value, or those of each value in a tuple: `pair[0]`, `pair[1]`."""
    if not isinstance(value, tuple):
        yield name, value
        return
    for n, part in enumerate(value):
        yield from leaves(f"{name}[{n}]", part)


def _like_tuple(value: Any, parts: list[Any]) -> Any:
    """Return a tuple of the same class, which may have named fields."""
    return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)


def _form(value: Any) -> object:
    """Return the properties of an argument that roughly determine what is compiled."""
    if isinstance(value, CapturedDescriptor):
        return (_form(value.base), tuple(value.like.block_shape), value.like.padding)
    if isinstance(value, tuple):
        return tuple(map(_form, value))
    return (value.dtype, len(value.shape)) if isinstance(value, TensorSpec) else value
