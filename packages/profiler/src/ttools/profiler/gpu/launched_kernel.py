"""Compiled kernels, and the parts of a launch that determine its work.

Triton calls the launcher of a compiled kernel with the grid, stream, function, metadata, hooks and
arguments. These positional values are called the words of a launch.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from msgspec.structs import replace

from ttools.core.spec import LaunchSpec
from ttools.core.triton_versions import is_descriptor
from ttools.interpreter.analysis.effects import memory_effects
from ttools.ir.parser import parse_module
from ttools.profiler.counting.work_parameters import Decisive, decisive_of
from ttools.profiler.gpu.count_request import CountRequest
from ttools.profiler.gpu.host_memory import described
from ttools.profiler.gpu.launch_code import CallCode, key_of, word
from ttools.profiler.run.origin import kernel_source

Words = tuple[Any, ...]

#: The words are the grid (three), stream, function, packed metadata, launch metadata and two hooks,
#: followed by the arguments.
_GRID = (0, 1, 2)
METADATA = 6
FIRST_ARGUMENT = 9
#: Compiler options that also affect a launch on the host.
_OPTIONS = ("num_warps", "num_stages", "num_ctas")


class GpuKernel:
    """A compiled kernel.

    Args:
        compiled: Triton's `CompiledKernel`, made from a Python function.

    Attributes:
        compiled: The `CompiledKernel` that was passed in.
        function: The `JITFunction` from which it was compiled.
        name: Name of the function.
        source: File and first line of the function.
        decides: Parameters and memory that determine the work of a launch; None if they are
            unknown.
        words: Number of words of a launch.
    """

    def __init__(self, compiled: Any) -> None:
        self.compiled = compiled
        self.function = compiled.src.fn
        self.name = str(self.function.__name__)
        self.source = kernel_source(self.function)
        self._signature = compiled.src.signature
        self.words = FIRST_ARGUMENT + len(self._signature)
        ttir = compiled.asm.get("ttir")
        types = list(self._signature.values())
        plain = all(isinstance(kind, str) and not is_descriptor(kind) for kind in types)
        decides = decisive_of(ttir) if plain and isinstance(ttir, str) else None
        self.decides: Decisive | None = decides
        #: The index of each parameter of the module among the words.
        self._places = [FIRST_ARGUMENT + n for n, kind in enumerate(types) if kind != "constexpr"]

    @property
    def needs_memory(self) -> bool:
        """Return whether the work of launches depends, or may depend, on the contents of memory."""
        return self.decides is None or self.decides.memory

    def deciding(self, words: Words) -> list[Any] | None:
        """Return the tensors whose contents determine the work; None if they are unknown."""
        if self.decides is None or self.decides.read is None:
            return None
        return [words[self._places[n]] for n in self.decides.read]

    def code(self, *, counts: bool) -> CallCode:
        """Return the code that runs in each launch of the kernel.

        Args:
            counts: If True, launches have equal keys if their work is equal, except for work that
                depends on memory; if False, all launches with the same grid have equal keys.
        """
        optional = sum(kind == "constexpr" for kind in self._signature.values())
        if counts and self.decides is None:
            words = ", ".join(map(word, range(self.words)))
            names = {"of_all": _of_all}
            key = f"of_all(({words},))"
            return CallCode(self.words, key=key, names=names, optional=optional)
        numbers = [self._places[n] for n in self.decides.numbers] if self.decides else []
        pointers = [self._places[n] for n in self.decides.alike] if self.decides else []
        key = key_of([*_GRID, *numbers], pointers) if counts else key_of(_GRID, ())
        return CallCode(self.words, key=key, optional=optional)

    def written(self, words: Words) -> list[Any] | None:
        """Return the tensors that a launch may write; None if they are unknown."""
        ttir = self.compiled.asm.get("ttir")
        if self.decides is None or not isinstance(ttir, str):
            return None
        effects = memory_effects(parse_module(ttir))
        tensors = [words[self._places[n]] for n in sorted(effects.written)]
        if effects.unknown_writes or not all(
            hasattr(tensor, "untyped_storage") for tensor in tensors
        ):
            return None
        return tensors

    def signature(self, words: Words) -> LaunchSpec:
        """Return a launch as data, without its arguments."""
        return LaunchSpec(kernel=self.name, grid=grid_of(words))

    def request(self, words: Words) -> CountRequest | None:
        """Return a launch as plain data without contents of memory; None if impossible."""
        ttir = self.compiled.asm.get("ttir")
        if self.decides is None or not isinstance(ttir, str):
            return None
        names = {str(n): kind for n, kind in self._signature.items() if kind != "constexpr"}
        arguments = described(names, [words[place] for place in self._places])
        if arguments is None:
            return None
        spec = replace(self.signature(words), arguments=arguments)
        return CountRequest(spec=spec, ttir=ttir)

    def arguments(self, words: Words) -> dict[str, Any]:
        """Return the arguments and compiler options for a call of the kernel's function."""
        metadata = self.compiled.metadata
        options = {name: getattr(metadata, name) for name in _OPTIONS if hasattr(metadata, name)}
        names: Sequence[str] = self.function.arg_names
        return {**options, **dict(zip(names, words[FIRST_ARGUMENT:], strict=True))}


def grid_of(words: Words) -> tuple[int, int, int]:
    """Return the grid of a launch."""
    x, y, z = (int(words[n]) for n in _GRID)
    return x, y, z


def _of_all(words: Words) -> Hashable:
    try:
        return grid_of(words), tuple(map(_fact, words[FIRST_ARGUMENT:]))
    except TypeError:
        return object()  # arguments that cannot be hashed: this key equals no other key


def _fact(value: Any) -> Hashable:
    if hasattr(value, "data_ptr"):
        return str(value.dtype), tuple(value.shape), tuple(value.stride())
    if hasattr(value, "block_shape"):  # a descriptor
        return type(value), _fact(value.base), tuple(value.shape), tuple(value.strides)
    if isinstance(value, tuple):
        return tuple(map(_fact, value))
    hash(value)
    return type(value), value
