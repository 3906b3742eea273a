"""Runs a program's kernel on the engine: one front end for all variants, fresh memory for each.

Owns the way between NumPy's memory and torch's tensors. Triton reads a kernel's source from its
file, so that each gets one.
"""

from __future__ import annotations

import ctypes
import sys
import warnings
from collections.abc import Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from ttools.core.process.user_module import load_file
from ttools.fuzz.elements import Array
from ttools.fuzz.memory import short_limits
from ttools.fuzz.passes import fewest_passes
from ttools.fuzz.program import Buffer, Program
from ttools.fuzz.text import module_text
from ttools.fuzz.variants import Variant, environment, launch_options

#: Of torch's allocator.
_ALIGNMENT = 64
#: Checks whose findings are defects of a kernel whatever its data; the others are about
#: numbers that random kernels make on purpose, such as NaNs and sums that wrap.
_STRICT = ("memcheck", "racecheck", "initcheck", "deadlock")


class FindingsError(Exception):
    """The checks found something in a kernel that has no defect."""


class Runner:
    """A program's kernel, ready to be launched in any variant.

    Args:
        folder: where its source goes.
        cpu: what code is made for in variants that name no CPU.
        ordered: `tl.view`, which may reorder elements and on a GPU does, is written `tl.reshape`.
    """

    def __init__(
        self, program: Program, folder: Path, cpu: str = "", *, ordered: bool = False
    ) -> None:
        self._program = program
        self._cpu = cpu
        self._kernel = _imported(program, folder, ordered=ordered)
        self._compiled: dict[tuple[bool, bool], Any] = {}

    def run(self, variant: Variant, memory: Mapping[str, Array]) -> dict[str, Array]:
        """Memory after a launch.

        Args:
            memory: what it is before; not changed.

        Raises:
            FindingsError: the checks complain.
        """
        tensors = {name: to_torch(array) for name, array in memory.items()}
        cut: dict[str, _Cut] = {}
        if variant.short:
            limits = short_limits(self._program)
            for buffer in self._program.buffers:
                if buffer.name in limits:
                    made = _Cut(tensors[buffer.name], buffer.margin + limits[buffer.name])
                    cut[buffer.name], tensors[buffer.name] = made, made.beginning
        with environment(variant, self._cpu), running(variant) as run:
            self._launch(variant, tensors)
        if variant.checks:
            refuse_findings(run)
        tensors |= {name: each.whole() for name, each in cut.items()}
        return {b.name: to_numpy(tensors[b.name], b) for b in self._program.buffers}

    def launch_on(self, device: str, memory: Mapping[str, Array]) -> dict[str, Array]:
        """Memory after a launch with tensors of a device, by whatever driver is active."""
        tensors = {name: to_torch(array).to(device) for name, array in memory.items()}
        self._start(tensors)
        return {b.name: to_numpy(tensors[b.name].cpu(), b) for b in self._program.buffers}

    def compile_on(self, device: str, memory: Mapping[str, Array]) -> None:
        """Compiles what `launch_on` launches."""
        tensors = {name: to_torch(array).to(device) for name, array in memory.items()}
        self._start(tensors, warmup=True)

    def run_on(self, device: str, memory: Mapping[str, Array]) -> dict[str, Array]:
        """Memory after a launch by the engine with tensors of a device."""
        from ttools.interpreter import interpret

        with interpret():
            return self.launch_on(device, memory)

    def _launch(self, variant: Variant, tensors: dict[str, Any]) -> None:
        native = variant.engine == "native"
        form = (variant.fusion, variant.simplified)
        compiled = self._compiled.get(form) if native else None
        if compiled is not None:
            load_again(compiled)
        with nullcontext() if variant.simplified else fewest_passes():
            made = self._start(tensors, **launch_options(variant))
        if native and compiled is None:
            self._compiled[form] = made

    def _start(self, tensors: dict[str, Any], **options: Any) -> Any:
        program = self._program
        given = [tensors[b.name][b.margin : b.margin + b.size] for b in program.buffers]
        numbers = [parameter.value for parameter in program.parameters]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = {"grid": program.grid, "warmup": False, **options}
            return self._kernel.run(*given, *numbers, **options)


class _Guarding:
    """Runs launches with guards of all accesses."""

    def launch(self, launch: Any) -> Any:
        from ttools.interpreter.run.bounds import GUARDS

        regions = launch.regions
        # Pointers in functions that are not inlined may lead to any argument.
        known = sorted({region.storage for region in regions if region.storage[1]})
        return launch.execute(GUARDS, regions=regions, allocations=lambda: known)


class _Cut:
    """A tensor in memory that goes on behind it, of which torch knows nothing.

    Args:
        tensor: All elements.
        count: How many of them the tensor gets.

    Attributes:
        beginning: The tensor.
    """

    def __init__(self, tensor: Any, count: int) -> None:
        import torch

        self._type = tensor.dtype
        size = tensor.numel() * tensor.element_size()
        room = np.zeros(size + _ALIGNMENT, np.uint8)
        start = -room.ctypes.data % _ALIGNMENT
        self._bytes = room[start : start + size]
        self._bytes[:] = tensor.view(torch.uint8).numpy()
        own = (ctypes.c_char * (count * tensor.element_size())).from_buffer(self._bytes.data)
        self.beginning = torch.frombuffer(own, dtype=tensor.dtype, count=count)

    def whole(self) -> Any:
        """Return all elements as they are now."""
        import torch

        return torch.from_numpy(self._bytes.copy()).view(self._type)


def load_again(compiled: Any) -> None:
    """Has a kernel that Triton compiled emitted again, under another environment."""
    compiled.module = compiled.function = compiled._run = None


def running(variant: Variant) -> AbstractContextManager[Any]:
    """The run of the engine, or of the sanitizer, that launches of a variant belong to."""
    from ttools.interpreter import interpret

    if variant.checks:
        from ttools.sanitizer import sanitize

        return sanitize(checks=variant.checks, threads=variant.threads)
    return interpret(
        threads=variant.threads,
        order=variant.order,
        schedule=variant.schedule,
        engine=variant.engine,
        observer=_Guarding() if variant.guarded else None,
        unsafe=False,
    )


def refuse_findings(run: Any, checks: Collection[str] = _STRICT) -> None:
    """Raises an error for the first finding of some checks, by default those above."""
    found = [f for f in run.findings if f.check in checks and f.severity == "error"]
    if found:
        first = found[0]
        raise FindingsError(f"{first.check}: {first.kind}: {first.message}")


def _imported(program: Program, folder: Path, *, ordered: bool) -> Any:
    text = module_text(program)
    if ordered:
        text = text.replace("tl.view(", "tl.reshape(")
    name = f"fuzz_{program.seed}_{abs(hash(text)):x}"
    path = folder / f"{name}.py"
    path.write_text(text)
    module = load_file(path)
    del sys.modules[module.__name__]  # which would keep all kernels
    return module.kernel


def to_torch(array: Array) -> Any:
    """A tensor of its own memory with the elements of an array."""
    import torch

    if array.dtype == np.bool_:
        return torch.tensor(array, device="cpu")
    bits = torch.tensor(array.view(f"int{array.dtype.itemsize * 8}"), device="cpu")
    return bits.view(getattr(torch, _TORCH[array.dtype.name]))


def to_numpy(tensor: Any, buffer: Buffer) -> Array:
    """The elements of a tensor."""
    import torch

    if buffer.element.kind == "bool":
        raw = tensor.view(torch.uint8).numpy()
        # A byte that is neither 0 nor 1 is no bool: show it as what it is not.
        return np.asarray(raw != 0)
    bits = getattr(torch, f"int{buffer.element.bits}")
    return np.asarray(tensor.view(bits).numpy()).view(buffer.element.numpy)


def _names() -> dict[str, str]:
    from ttools.fuzz.elements import ELEMENTS

    return {np.dtype(e.numpy).name: e.torch for e in ELEMENTS}


_TORCH = _names()
