"""Modules of one operation, written with Triton's own MLIR builder and compiled natively.

The eager engine uses such modules for all operations that NumPy does not compute exactly, so that
the results are bitwise equal to those of the native engine. A module loads the operands from
memory, executes the operation, and stores the results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from triton import language as tl

from ttools.core import triton_versions
from ttools.interpreter.abi.module import EmitOptions, Facts
from ttools.interpreter.eager.elements import Element, Handle, context, split_type
from ttools.interpreter.eager.elements import element as element_of
from ttools.interpreter.emit.kernel import emit_kernel
from ttools.interpreter.native import jit
from ttools.interpreter.run.interpretation import active_run, dot_mode
from ttools.interpreter.runtime import launch
from ttools.interpreter.runtime.cache import get_or_compile
from ttools.interpreter.runtime.launch import Kernel
from ttools.ir.parser import parse_module

_NAMES = {
    **{f"i{width}": f"int{width}" for width in (1, 8, 16, 32, 64)},
    **{f"f{width}": f"float{width}" for width in (16, 32, 64)},
    "bf16": "bfloat16",
    "f8E5M2": "float8e5",
    "f8E5M2FNUZ": "float8e5b16",
    "f8E4M3FN": "float8e4nv",
    "f8E4M3FNUZ": "float8e4b8",
}

Shape = tuple[int, ...]


class ValueType(NamedTuple):
    """Type of an operand or result; scalars have the shape ().

    Attributes:
        is_grouped: True if there is a separate value for each program of a group; see `groups`.
    """

    element: Element
    shape: Shape
    is_grouped: bool = False


def new_builder(options: Any, codegen: Any) -> Any:
    """Return a new MLIR builder of Triton.

    Args:
        options: Launch options that the backend has parsed.
        codegen: The backend's code generator functions, by name.
    """
    builder = triton_versions.mlir_builder(context())
    builder.options = options
    builder.codegen_fns = codegen
    return builder


def language_type(type: ValueType) -> Any:
    """Return the type of Triton's language for an MLIR type; integers are signed."""
    scalar = _language_scalar(type.element)
    return tl.block_type(scalar, list(type.shape)) if type.shape else scalar


def _language_scalar(element: Element) -> Any:
    if element.pointee is not None:
        return tl.pointer_type(_language_scalar(element.pointee))
    return getattr(tl, _NAMES[element.text])


class SingleOp(NamedTuple):
    """A compiled operation.

    Attributes:
        kernel: Kernel whose parameters are the addresses of the operands, then of the results. Each
            program of this kernel computes the values of one program of a group.
        results: Types of the results.
        form: The kind of object that the builder's method returns: `value` for an MLIR value,
            `several` for a list of values, `operation` for an operation with results, or `nothing`.
    """

    kernel: Kernel
    results: tuple[ValueType, ...]
    form: str

    def run(self, operands: Sequence[Handle], group: Sequence[object] | None) -> list[Handle]:
        """Return the results.

        Args:
            operands: Values of the operands.
            group: The programs of a group, if any operand differs between them; otherwise None.
        """
        buffers = [np.ascontiguousarray(operand.data) for operand in operands]
        programs = () if group is None else (len(group),)
        results = [np.empty((*programs, *r.shape), r.element.dtype) for r in self.results]
        addresses = [array.ctypes.data for array in (*buffers, *results)]
        launch.run(self.kernel, addresses, programs or (1,))
        handles = [Handle(a, r.element) for a, r in zip(results, self.results, strict=True)]
        for handle in handles:
            handle.is_grouped = group is not None
        return handles


class OpResults:
    """Replacement of an MLIR operation object whose results are read with `get_result`."""

    def __init__(self, handles: Sequence[Handle]) -> None:
        self._handles = handles

    def get_result(self, index: int) -> Handle:
        return self._handles[index]

    def __iter__(self) -> Iterator[Handle]:
        return iter(self._handles)


def compile_op(
    name: str,
    operands: Sequence[ValueType],
    write: Callable[[Any, list[Any]], Any],
    options: Any,
    codegen: Any,
) -> SingleOp:
    """Compile one operation.

    Args:
        name: Name of the operation in the cache and in messages.
        operands: Types of the operands.
        write: Creates the operation with a builder and the operands' MLIR values; returns the
            result of the builder's method.
        options: Launch options that the backend has parsed.
        codegen: The backend's code generator functions, by name.
    """
    write_module = partial(_write, options, codegen, write)
    # The function needs a pointer parameter for each result, but the number of results is only
    # known after the operation was created. Therefore the module is written twice.
    _, results = _form_and_types(write_module(operands, ())[1])
    if any(operand.is_grouped for operand in operands):
        results = tuple(result._replace(is_grouped=True) for result in results)
    text, made = write_module(operands, results)
    form, _ = _form_and_types(made)
    facts = Facts(readonly=frozenset(range(len(operands))))
    emit = EmitOptions(
        fp_fusion=options.enable_fp_fusion, lanes=jit.host_lanes(), dot=dot_mode(active_run())
    )
    compilation = get_or_compile(
        text, facts, emit, lambda: emit_kernel(parse_module(text), facts, emit), name=name
    )
    return SingleOp(compilation.kernel, results, form)


def _form_and_types(made: Any) -> tuple[str, tuple[ValueType, ...]]:
    form, values = _values(made)
    return form, tuple(_value_type(value) for value in values)


def _values(made: Any) -> tuple[str, list[Any]]:
    if made is None:
        return "nothing", []
    if isinstance(made, (list, tuple)):
        return "several", list(made)
    if hasattr(made, "get_type"):
        return "value", [made]
    if hasattr(made, "get_num_results"):
        return "operation", [made.get_result(i) for i in range(made.get_num_results())]
    return "operation", [made.get_result(0)]


def _value_type(value: Any) -> ValueType:
    element, shape = split_type(str(value.get_type()))
    return ValueType(element, shape or ())


def _write(
    options: Any,
    codegen: Any,
    make: Callable[[Any, list[Any]], Any],
    operands: Sequence[ValueType],
    results: Sequence[ValueType],
) -> tuple[str, Any]:
    """Write a module with Triton's builder.

    Returns:
        The text of the module, and the result of `make`.
    """
    builder = new_builder(options, codegen)
    semantic = triton_versions.semantic_class()(builder)
    pointers = [
        tl.pointer_type(_language_scalar(_stored(t.element))) for t in (*operands, *results)
    ]
    module, function = triton_versions.begin_function(
        builder, "op", [pointer.to_ir(builder) for pointer in pointers]
    )
    parameters = [tl.tensor(function.args(i), type) for i, type in enumerate(pointers)]
    if any(operand.is_grouped for operand in operands):
        parameters = [
            _of_program(semantic, parameter, type)
            for parameter, type in zip(parameters, (*operands, *results), strict=True)
        ]
    read = [
        _load(semantic, pointer, type).handle
        for pointer, type in zip(parameters, operands, strict=False)
    ]
    made = make(builder, read)
    if results:
        targets = parameters[len(operands) :]
        for pointer, type, value in zip(targets, results, _values(made)[1], strict=True):
            _store(semantic, pointer, tl.tensor(value, language_type(type)), type)
    builder.ret([])
    return str(module), made


def _stored(element: Element) -> Element:
    """Return the type in which memory stores an element: i64 for pointers, i8 for `i1`."""
    if element.is_pointer:
        return element_of("i64")
    return element_of("i8") if element.text == "i1" else element


def _of_program(semantic: Any, pointer: Any, type: ValueType) -> Any:
    """Return a pointer to the elements of the current program of a group."""
    if not type.is_grouped:
        return pointer
    program = tl.program_id(0, _semantic=semantic).to(tl.int64, _semantic=semantic)
    return pointer.__add__(
        program.__mul__(int(np.prod(type.shape)), _semantic=semantic), _semantic=semantic
    )


def _lanes(semantic: Any, pointer: Any, type: ValueType) -> Any:
    if not type.shape:
        return pointer
    lanes = tl.arange(0, int(np.prod(type.shape)), _semantic=semantic)
    return pointer.__add__(lanes, _semantic=semantic)


def _load(semantic: Any, pointer: Any, type: ValueType) -> Any:
    value = tl.load(_lanes(semantic, pointer, type), _semantic=semantic)
    if len(type.shape) > 1:
        value = tl.reshape(value, list(type.shape), _semantic=semantic)
    wanted = _language_scalar(type.element)
    return value if value.dtype == wanted else value.to(wanted, _semantic=semantic)


def _store(semantic: Any, pointer: Any, value: Any, type: ValueType) -> None:
    wanted = _language_scalar(_stored(type.element))
    if value.dtype != wanted:
        value = value.to(wanted, _semantic=semantic)
    if len(type.shape) > 1:
        value = tl.reshape(value, [int(np.prod(type.shape))], _semantic=semantic)
    tl.store(_lanes(semantic, pointer, type), value, _semantic=semantic)
