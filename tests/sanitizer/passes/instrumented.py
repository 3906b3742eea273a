"""Runs a kernel whose IR a pass has rewritten, and returns where each `ttools.check` held.

Checks are replaced by stores to hidden outputs of one byte per program and lane, so that a pass is
tested without the engine that reports its checks.
"""

from __future__ import annotations

import functools
import importlib.util
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import triton
from triton.compiler import ASTSource

from ttools.core.location import SourceLocation
from ttools.interpreter.abi.module import EmitOptions, Facts
from ttools.interpreter.analysis.effects import memory_effects
from ttools.interpreter.emit.kernel import emit_kernel
from ttools.interpreter.native import jit
from ttools.interpreter.runtime import launch
from ttools.interpreter.runtime.launch_options import LaunchOptions
from ttools.ir import (
    IntegerType,
    Module,
    Operation,
    PointerType,
    TensorType,
    Value,
    shape_of,
)
from ttools.ir.inlining import inline_calls
from ttools.ir.parser import parse_module
from ttools.ir.rewriting import Rewriter, add_parameter
from ttools.ir.verification import verify

_TYPES = {
    torch.float32: "*fp32",
    torch.float16: "*fp16",
    torch.int16: "*i16",
    torch.int32: "*i32",
    torch.int64: "*i64",
    torch.int8: "*i8",
    torch.uint8: "*u8",
    torch.bool: "*i1",
}
_BYTE = IntegerType(8)


@dataclass(frozen=True)
class Held:
    """The programs and lanes for which a check held."""

    message: str
    kind: str
    argument: int
    location: SourceLocation | None
    where: np.ndarray[Any, Any]

    @property
    def any(self) -> bool:
        return bool(self.where.any())


@functools.cache
def _ttir(kernel: Any, signature: tuple[tuple[str, str], ...], constants: tuple[Any, ...]) -> str:
    source = ASTSource(kernel, dict(signature), dict(constants))
    return str(triton.compile(source).asm["ttir"])


def ttir_of(kernel: Any, arguments: Mapping[str, Any], constants: Mapping[str, Any]) -> str:
    """Return the TTIR of a kernel for arguments by name, without specialisation on values."""
    signature = {}
    for name in kernel.arg_names:
        if name in constants:
            signature[name] = "constexpr"
        else:
            value = arguments[name]
            signature[name] = "i32"
            if isinstance(value, torch.Tensor):
                signature[name] = _TYPES[value.dtype]
    return _ttir(kernel, tuple(signature.items()), tuple(constants.items()))


def parsed(kernel: Any, arguments: Mapping[str, Any], constants: Mapping[str, Any]) -> Module:
    module = parse_module(ttir_of(kernel, arguments, constants))
    assert inline_calls(module) == []
    assert verify(module) == []
    return module


def run(
    kernel: Any,
    grid: Sequence[int],
    arguments: Mapping[str, Any],
    constants: Mapping[str, Any],
    rewrite: Callable[[Module], object],
    *,
    hidden: Sequence[int] = (),
    schedule: Literal["fused", "materialised"] = "fused",
    readonly: bool = True,
) -> list[Held]:
    """Run a rewritten kernel and return the results of its checks.

    Args:
        kernel: A function decorated with `triton.jit`.
        grid: One to three extents.
        arguments: Tensors and integers by name; the kernel may write the tensors.
        constants: Arguments of `tl.constexpr` parameters by name.
        rewrite: The pass under test, which changes the module in place.
        hidden: Values of the parameters that the pass adds.
        schedule: Schedule of the emitter.
        readonly: If True, loads from parameters that are never written may be fused.
    """
    module = parsed(kernel, arguments, constants)
    effects = memory_effects(module)
    pointers = {
        n
        for n, v in enumerate(module.kernel.regions[0].entry.arguments)
        if isinstance(v.type, PointerType)
    }
    rewrite(module)
    assert verify(module) == []
    results, outputs = _replace_checks(module, int(np.prod(grid)))
    assert verify(module) == []
    facts = Facts(readonly=frozenset(pointers - effects.written) if readonly else frozenset())
    emitted = emit_kernel(module, facts, EmitOptions(schedule=schedule, lanes=jit.host_lanes()))
    native = jit.load(jit.compile_ir(emitted.llvm_ir, opt=1))
    values = [arguments[name] for name in kernel.arg_names if name not in constants]
    params = [v.data_ptr() if isinstance(v, torch.Tensor) else v for v in values]
    params += [*hidden, *(output.ctypes.data for output in outputs)]
    launch.run(launch.Kernel(emitted, native), params, grid, LaunchOptions(threads=1))
    return results


def _replace_checks(module: Module, programs: int) -> tuple[list[Held], list[np.ndarray[Any, Any]]]:
    results, outputs = [], []
    rewriter = Rewriter()
    checks = [op for op in module.kernel.walk() if op.name == "ttools.check"]
    for op in checks:
        condition = op.operands[0]
        shape = shape_of(condition.type)
        where = np.zeros((programs, *shape), np.uint8)
        _store(rewriter, op, condition, add_parameter(module.kernel, PointerType(_BYTE)))
        argument = op.attributes["argument"]
        assert isinstance(argument, int)
        message, kind = str(op.attributes["message"]), str(op.attributes["kind"])
        results.append(Held(message, kind, argument, op.location, where))
        outputs.append(where)
    rewriter.apply()
    for op in checks:
        for index, operand in enumerate(op.operands):
            operand.uses.remove((op, index))
        assert op.parent is not None
        op.parent.operations.remove(op)
    return results, outputs


def _store(rewriter: Rewriter, op: Operation, condition: Value, output: Value) -> None:
    b = rewriter.before(op)
    number = IntegerType(32)
    axes = [b.value("tt.get_program_id", [], number, {"axis": n}) for n in range(3)]
    extents = [b.value("tt.get_num_programs", [], number, {"axis": n}) for n in range(2)]
    program = b.binary("addi", b.binary("muli", axes[2], extents[1]), axes[1])
    program = b.binary("addi", b.binary("muli", program, extents[0]), axes[0])
    type = condition.type
    if isinstance(type, TensorType):
        program = b.binary("muli", program, b.constant(number, type.numel))
        flat = TensorType((type.numel,), number)
        lanes = b.value("tt.make_range", [], flat, {"start": 0, "end": type.numel})
        shaped = TensorType(type.shape, number)
        lanes = b.value("tt.reshape", [lanes], shaped) if len(type.shape) > 1 else lanes
        program = b.binary("addi", lanes, program)
    base = b.spread(output, type)
    pointer = b.value("tt.addptr", [base, program], base.type)
    ones = b.spread(b.constant(_BYTE, 1), type)
    b.operation("tt.store", [pointer, ones, condition])


@functools.lru_cache(maxsize=1)
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="ttools-kernels-")


_count = iter(range(10**9))


def kernel_from(text: str) -> Any:
    """Return the function `kernel` of a source text; Triton reads kernels only from files."""
    path = Path(_folder().name) / f"kernels_{next(_count)}.py"
    path.write_text(f"import triton\nimport triton.language as tl\n\n{text}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def line_of(result: Held) -> str:
    """Return the source line that a check names."""
    import linecache

    assert result.location is not None
    return linecache.getline(result.location.file, result.location.line).strip()
