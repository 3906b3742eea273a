"""A small JIT for `elementwise.lower` that applies operations to arrays in loops over vectors."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import ml_dtypes
import numpy as np

from ttools import ir
from ttools.interpreter.elementwise import lower, narrow_from_f32, widen_to_f32
from ttools.interpreter.llvm.builder import Builder, memory_type, register_type
from ttools.interpreter.llvm.lines import body_text
from ttools.interpreter.llvm.value import SSAValue, vector_type
from ttools.interpreter.native.jit import host_target

#: Element types by their MLIR names, and the NumPy type of their memory.
TYPES: dict[str, Any] = {
    "i1": np.uint8,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
    "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
    "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
}


def parse_type(name: str) -> ir.Type:
    return ir.IntegerType(int(name[1:])) if name.startswith("i") else ir.FloatType(name)


def make_op(
    name: str, operands: Sequence[str], results: Sequence[str], attributes: dict[str, Any]
) -> ir.Operation:
    op = ir.Operation(name, attributes=dict(attributes))
    for i, kind in enumerate(operands):
        op.operands.append(ir.Value(parse_type(kind), f"a{i}", ir.Block(), i))
    for i, kind in enumerate(results):
        op.results.append(ir.Value(parse_type(kind), f"r{i}", op, i))
    return op


def _address(builder: Builder, mem: str, index: int) -> SSAValue:
    pointer = SSAValue(f"%p{index}", "ptr")
    return builder.element(mem, pointer, SSAValue("%i", "i64"), inbounds=False)


def _load(builder: Builder, kind: str, width: int, index: int) -> SSAValue:
    """Emit a load, and convert from the type in memory to that in registers."""
    element = parse_type(kind)
    mem, reg = memory_type(element), register_type(element)
    value = builder.load(vector_type(mem, width), _address(builder, mem, index), 1)
    if kind == "i1":
        return builder.cast("trunc", value, reg)
    if kind == "bf16":
        wide = builder.binary("shl", builder.cast("zext", value, "i32"), 16)
        return builder.cast("bitcast", wide, reg)
    return builder.bitcast(value, vector_type(reg, width))


def _store(builder: Builder, kind: str, index: int, value: SSAValue) -> None:
    """Convert from the type in registers to that in memory, and emit a store."""
    element = parse_type(kind)
    mem = memory_type(element)
    if kind == "i1":
        value = builder.cast("zext", value, mem)
    elif kind == "bf16":
        wide = builder.binary("lshr", builder.cast("bitcast", value, "i32"), 16)
        value = builder.cast("trunc", wide, mem)
    elif mem != register_type(element):
        value = builder.cast("bitcast", value, mem)
    builder.store(value, _address(builder, mem, index), 1)


@dataclass(frozen=True, kw_only=True)
class Case:
    """An operation to compile: names of element types, attributes and literal operands as pairs."""

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    width: int = 16
    attributes: tuple[tuple[str, Any], ...] = ()
    literals: tuple[tuple[int, str], ...] = ()


def _literal(text: str, kind: str, width: int) -> SSAValue:
    return SSAValue(text, vector_type(register_type(parse_type(kind)), width))


def build_ir(*cases: Case) -> str:
    """Return LLVM IR whose `run<i>(ptr..., i64 n)` applies case i to n elements, n % width == 0."""
    builders = []
    for case in cases:
        builder = Builder()
        op = make_op(case.name, case.operands, case.results, dict(case.attributes))
        literals = dict(case.literals)
        values = [
            _literal(literals[i], kind, case.width)
            if i in literals
            else _load(builder, kind, case.width, i)
            for i, kind in enumerate(case.operands)
        ]
        outputs = lower(builder, op, case.width, values)
        assert len(outputs) == len(case.results)
        for i, kind in enumerate(case.results):
            _store(builder, kind, len(case.operands) + i, outputs[i])
        builders.append((builder, len(case.operands) + len(case.results), case.width))
    return _module(builders)


def build_widen(kind: str, width: int) -> str:
    """Return LLVM IR whose `run` applies `widen_to_f32`."""
    builder = Builder()
    value = widen_to_f32(builder, _load(builder, kind, width, 0), parse_type(kind))
    _store(builder, "f32", 1, value)
    return _module([(builder, 2, width)])


def build_narrow(kind: str, width: int) -> str:
    """Return LLVM IR whose `run` applies `narrow_from_f32`."""
    builder = Builder()
    value = narrow_from_f32(builder, _load(builder, "f32", width, 0), parse_type(kind))
    _store(builder, kind, 1, value)
    return _module([(builder, 2, width)])


def _module(builders: Sequence[tuple[Builder, int, int]]) -> str:
    """Return LLVM IR with loops, given the builder of each body, its pointers and its width."""
    declarations: dict[str, str] = {}
    definitions: dict[str, str] = {}
    loops: list[str] = []
    for index, (builder, pointers, width) in enumerate(builders):
        declarations |= builder.declarations
        definitions |= builder.definitions
        loops += _loop(index, builder, pointers, width)
    return "\n".join([*declarations.values(), *definitions.values(), *loops])


def _loop(index: int, builder: Builder, pointers: int, width: int) -> list[str]:
    parameters = ", ".join(f"ptr %p{i}" for i in range(pointers))
    return [
        f"define void @run{index}({parameters}, i64 %n) {{",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [0, %entry], [%next, %loop]",
        body_text(builder.lines),
        f"  %next = add i64 %i, {width}",
        "  %more = icmp ult i64 %next, %n",
        "  br i1 %more, label %loop, label %exit",
        "exit:",
        "  ret void",
        "}",
    ]


def _target() -> llvm.TargetMachine:
    """Create the target machine of kernels; each engine owns its machine and frees it."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    with contextlib.suppress(RuntimeError):
        # CPUs without f16 conversions (TTOOLS_CPU=x86-64-v2) call functions of libgcc.
        llvm.load_library_permanently("libgcc_s.so.1")
    target = host_target()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=target.cpu, features=target.features, opt=2, jit=True
    )


class Compiled:
    """A compiled module with the functions of `build_ir`, which keeps its engine alive."""

    def __init__(self, text: str) -> None:
        module = llvm.parse_assembly(text)
        module.verify()
        machine = _target()
        options = llvm.PipelineTuningOptions(speed_level=2)
        options.loop_vectorization = False
        options.slp_vectorization = False
        builder = llvm.create_pass_builder(machine, options)
        builder.getModulePassManager().run(module, builder)
        self.engine = llvm.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()

    def __call__(self, *arrays: np.ndarray[Any, Any], count: int, index: int = 0) -> None:
        kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arrays), ctypes.c_int64)
        address = self.engine.get_function_address(f"run{index}")
        kind(address)(*[a.ctypes.data for a in arrays], count)


@cache
def _compile(*cases: Case) -> Compiled:
    return Compiled(build_ir(*cases))


def _run(compiled: Compiled, index: int, case: Case, arrays: Sequence[Any]) -> Any:
    broadcast = np.broadcast_arrays(*arrays)
    count, width = broadcast[0].size, case.width
    padded = -(-max(count, 1) // width) * width
    inputs = []
    for array, kind in zip(broadcast, case.operands, strict=True):
        buffer = np.zeros(padded, TYPES[kind])
        buffer[:count] = array.ravel().astype(TYPES[kind], copy=False)
        inputs.append(buffer)
    outputs = [np.zeros(padded, TYPES[kind]) for kind in case.results]
    compiled(*inputs, *outputs, count=padded, index=index)
    final = [o[:count].reshape(broadcast[0].shape) for o in outputs]
    return final[0] if len(final) == 1 else tuple(final)


def apply(
    name: str,
    operands: Sequence[str],
    results: Sequence[str],
    *arrays: Any,
    width: int = 16,
    literals: dict[int, str] | None = None,
    **attributes: Any,
) -> Any:
    """Return the results of one operation on arrays, computed natively in vectors of `width`."""
    case = Case(
        name=name,
        operands=tuple(operands),
        results=tuple(results),
        width=width,
        attributes=tuple(attributes.items()),
        literals=tuple((literals or {}).items()),
    )
    return _run(_compile(case), 0, case, arrays)


def apply_all(cases: Sequence[Case], arrays: Sequence[Sequence[Any]]) -> list[Any]:
    """Apply many operations that are compiled together, which is faster than calls of `apply`."""
    compiled = _compile(*cases)
    return [_run(compiled, i, c, a) for i, (c, a) in enumerate(zip(cases, arrays, strict=True))]
