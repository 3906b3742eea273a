"""Execution of a program's kernel on the engine, in any variant, each time on fresh memory.

Each kernel is written to a file, because Triton reads the source from there.
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

#: Alignment of torch's allocations in bytes.
_ALIGNMENT = 64
#: Checks whose findings are defects regardless of the data. Other checks report numeric events,
#: such as NaNs and integer overflow, which random kernels cause on purpose.
_STRICT = ("memcheck", "racecheck", "initcheck", "deadlock")


class FindingsError(Exception):
    """The sanitizer reported a finding in a kernel without defects."""


class Runner:
    """Runs a program's kernel in any variant.

    Args:
        folder: Folder for the kernel's source.
        cpu: Target CPU of variants that do not set one.
        ordered: If True, `tl.view` is written as `tl.reshape`, because `tl.view` may reorder
            elements, and does so on a GPU.
    """

    def __init__(
        self, program: Program, folder: Path, cpu: str = "", *, ordered: bool = False
    ) -> None:
        self._program = program
        self._cpu = cpu
        self._kernel = _imported(program, folder, ordered=ordered)
        self._compiled: dict[tuple[bool, bool], Any] = {}

    def run(self, variant: Variant, memory: Mapping[str, Array]) -> dict[str, Array]:
        """Return the memory after a launch in a variant.

        Args:
            memory: Memory before the launch; it is not changed.

        Raises:
            FindingsError: The sanitizer reports a finding.
        """
        tensors = {name: to_torch(array) for name, array in memory.items()}
        shortened: dict[str, _ShortTensor] = {}
        if variant.short:
            limits = short_limits(self._program)
            for buffer in self._program.buffers:
                if buffer.name in limits:
                    end = buffer.margin + limits[buffer.name]
                    short = shortened[buffer.name] = _ShortTensor(tensors[buffer.name], end)
                    tensors[buffer.name] = short.tensor
        with environment(variant, self._cpu), running(variant) as run:
            self._launch(variant, tensors)
        if variant.checks:
            refuse_findings(run)
        tensors |= {name: short.all_elements() for name, short in shortened.items()}
        return {b.name: to_numpy(tensors[b.name], b) for b in self._program.buffers}

    def launch_on(self, device: str, memory: Mapping[str, Array]) -> dict[str, Array]:
        """Launch the kernel with Triton's active driver and tensors on a device; return memory."""
        tensors = {name: to_torch(array).to(device) for name, array in memory.items()}
        self._start(tensors)
        return {b.name: to_numpy(tensors[b.name].cpu(), b) for b in self._program.buffers}

    def compile_on(self, device: str, memory: Mapping[str, Array]) -> None:
        """Compile the kernel that `launch_on` launches."""
        tensors = {name: to_torch(array).to(device) for name, array in memory.items()}
        self._start(tensors, warmup=True)

    def run_on(self, device: str, memory: Mapping[str, Array]) -> dict[str, Array]:
        """Launch the kernel on the engine with tensors on a device; return memory."""
        from ttools.interpreter import interpret

        with interpret():
            return self.launch_on(device, memory)

    def _launch(self, variant: Variant, tensors: dict[str, Any]) -> None:
        native = variant.engine == "native"
        key = (variant.fusion, variant.simplified)
        compiled = self._compiled.get(key) if native else None
        if compiled is not None:
            load_again(compiled)
        with nullcontext() if variant.simplified else fewest_passes():
            made = self._start(tensors, **launch_options(variant))
        if native and compiled is None:
            self._compiled[key] = made

    def _start(self, tensors: dict[str, Any], **options: Any) -> Any:
        program = self._program
        tensors_passed = [tensors[b.name][b.margin : b.margin + b.size] for b in program.buffers]
        numbers = [parameter.value for parameter in program.parameters]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = {"grid": program.grid, "warmup": False, **options}
            return self._kernel.run(*tensors_passed, *numbers, **options)


class _Guarding:
    """Observes launches, and runs them with bounds guards on all accesses."""

    def launch(self, launch: Any) -> Any:
        from ttools.interpreter.run.bounds import GUARDS

        regions = launch.regions
        # All storages are valid: pointers in functions that are not inlined may derive from any
        # argument.
        storages = sorted({region.storage for region in regions if region.storage[1]})
        return launch.execute(GUARDS, regions=regions, allocations=lambda: storages)


class _ShortTensor:
    """A tensor that ends before its memory does; torch cannot access the memory past its end.

    Args:
        tensor: Tensor with all elements.
        count: Number of elements of the short tensor.

    Attributes:
        tensor: The short tensor itself.
    """

    def __init__(self, tensor: Any, count: int) -> None:
        import torch

        self._type = tensor.dtype
        size = tensor.numel() * tensor.element_size()
        padded = np.zeros(size + _ALIGNMENT, np.uint8)
        start = -padded.ctypes.data % _ALIGNMENT
        self._bytes = padded[start : start + size]
        self._bytes[:] = tensor.view(torch.uint8).numpy()
        own = (ctypes.c_char * (count * tensor.element_size())).from_buffer(self._bytes.data)
        self.tensor = torch.frombuffer(own, dtype=tensor.dtype, count=count)

    def all_elements(self) -> Any:
        """Return all elements, including those past the end of the short tensor."""
        import torch

        return torch.from_numpy(self._bytes.copy()).view(self._type)


def load_again(compiled: Any) -> None:
    """Make the engine compile a kernel again, because environment variables have changed."""
    compiled.module = compiled.function = compiled._run = None


def running(variant: Variant) -> AbstractContextManager[Any]:
    """Return the context of the engine or the sanitizer in which a variant is launched."""
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
    """Raise an error for the first finding of the given checks."""
    errors = [f for f in run.findings if f.check in checks and f.severity == "error"]
    if errors:
        first = errors[0]
        raise FindingsError(f"{first.check}: {first.kind}: {first.message}")


def _imported(program: Program, folder: Path, *, ordered: bool) -> Any:
    text = module_text(program)
    if ordered:
        text = text.replace("tl.view(", "tl.reshape(")
    name = f"fuzz_{program.seed}_{abs(hash(text)):x}"
    path = folder / f"{name}.py"
    path.write_text(text)
    module = load_file(path)
    del sys.modules[module.__name__]  # the entry would keep every kernel alive
    return module.kernel


def to_torch(array: Array) -> Any:
    """Return a tensor with its own memory and the elements of an array."""
    import torch

    if array.dtype == np.bool_:
        return torch.tensor(array, device="cpu")
    bits = torch.tensor(array.view(f"int{array.dtype.itemsize * 8}"), device="cpu")
    return bits.view(getattr(torch, _TORCH[array.dtype.name]))


def to_numpy(tensor: Any, buffer: Buffer) -> Array:
    """Return the elements of a tensor as an array."""
    import torch

    if buffer.element.kind == "bool":
        raw = tensor.view(torch.uint8).numpy()
        # Any byte other than 0 counts as True.
        return np.asarray(raw != 0)
    bits = getattr(torch, f"int{buffer.element.bits}")
    return np.asarray(tensor.view(bits).numpy()).view(buffer.element.numpy)


def _names() -> dict[str, str]:
    from ttools.fuzz.elements import ELEMENTS

    return {np.dtype(e.numpy).name: e.torch for e in ELEMENTS}


_TORCH = _names()
