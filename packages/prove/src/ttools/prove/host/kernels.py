"""Compilation to TTIR of the kernels that host code launches; the kernels do not run."""

from __future__ import annotations

from typing import Any

from ttools.ir import Module, Operation
from ttools.ir.dialects.traits import CALL, WRITES
from ttools.ir.parser import parse_module
from ttools.prove.host.launches import Memory, SymbolicCall


class Kernels:
    """The kernels of one analysis; launches with equal specialisations share a module."""

    def __init__(self) -> None:
        self._modules: dict[object, Module] = {}

    def module(self, launch: SymbolicCall) -> Module:
        """Return the TTIR of a launch's kernel, with calls inlined, as the interpreter runs it."""
        module = self._modules.get(launch.key)
        if module is None:
            module = self._modules[launch.key] = _module(launch)
        return module

    def written(self, launch: SymbolicCall) -> list[int]:
        """Return the indices of the arguments whose storage the kernel may write to."""
        numbers = self.storages(launch)
        return [
            n
            for n, a in enumerate(launch.arguments)
            if isinstance(a, Memory) and a.number in numbers
        ]

    def storages(self, launch: SymbolicCall) -> frozenset[int]:
        """Return the numbers of the storages that the kernel may write to."""
        from ttools.interpreter.analysis.effects import Provenance

        kernel = self.module(launch).kernel
        provenance = Provenance(kernel)
        numbers: set[int] = set()
        for op in kernel.walk():
            if op.has(WRITES):
                parameters = sources(op, provenance)
                for index, argument in enumerate(launch.arguments):
                    if isinstance(argument, Memory) and (parameters is None or index in parameters):
                        numbers.add(argument.number)
        return frozenset(numbers)


def sources(op: Operation, provenance: Any) -> set[int] | None:
    """Return the parameters that the address of an access is derived from; None if unknown."""
    from ttools.sanitizer.analysis.dataflow import parameter_of

    index = parameter_of(op.address, provenance)
    return None if index < 0 else {index}


def _module(launch: SymbolicCall) -> Module:
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget

    from ttools.core.triton_versions.source_key import kernel_ast_source
    from ttools.interpreter.backend.compiler import CPUBackend
    from ttools.interpreter.frontend.options import parse_options
    from ttools.interpreter.frontend.triton_passes import Stages

    target = GPUTarget("cpu", 0, 32)
    backend = CPUBackend(target)
    options = parse_options({})
    context = ir.context()
    ir.load_dialects(context)
    source = kernel_ast_source(launch.function, launch.signature, launch.constants, {})
    module = source.make_ir(
        target,
        options,
        backend.get_codegen_implementation(options),
        backend.get_module_map(),
        context,
    )
    stages = Stages()
    text = stages.last(stages.ttir(module, {}), {}).decode()
    parsed = parse_module(text)
    if any(op.has(CALL) for op in parsed.kernel.walk()):
        from ttools.ir.inlining import inline_calls

        inline_calls(parsed)
    return parsed
