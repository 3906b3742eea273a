"""Fixtures that compile kernels with Triton and parse TTIR with MLIR, the parser's oracle."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from ttools import ir
from ttools.ir.parser.parser import read_module

# What is compared of an operation: its name, the types of its operands and those of its results.
Shape: TypeAlias = tuple[str, list[str], list[str]]

Compile: TypeAlias = Callable[..., str]


@pytest.fixture(scope="session")
def ttir() -> Compile:
    """Return a function that compiles a kernel to the text of its TTIR.

    Example: `ttir(kernel, x="*fp32", n="i32", BLOCK=64, passes=True)`. A string is the type of a
    parameter, and any other value is the value of a constexpr parameter. `passes` selects whether
    Triton's TTIR passes run.
    """
    from triton._C.libtriton import ir as mlir
    from triton.backends.compiler import GPUTarget
    from triton.backends.nvidia.compiler import CUDABackend
    from triton.compiler import ASTSource

    target = GPUTarget("cuda", 80, 32)

    def compile(kernel: Any, *, passes: bool = True, **parameters: Any) -> str:
        names = kernel.arg_names
        signature = {
            name: parameters[name] if isinstance(parameters[name], str) else "constexpr"
            for name in names
        }
        constants = {
            (index,): parameters[name]
            for index, name in enumerate(names)
            if signature[name] == "constexpr"
        }
        backend = CUDABackend(target)
        options = backend.parse_options({})
        context = mlir.context()
        mlir.load_dialects(context)
        backend.load_dialects(context)
        module = ASTSource(kernel, signature, constants, {}).make_ir(
            target,
            options,
            backend.get_codegen_implementation(options),
            backend.get_module_map(),
            context,
        )
        if passes:
            module = CUDABackend.make_ttir(module, {}, options, 80)
        return module.str()

    return compile


@pytest.fixture(scope="session")
def mlir_shapes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[Shape] | None]:
    """Return a function that lists the operations of a text in post-order, as MLIR parses it.

    The function returns None if MLIR rejects the text.
    """
    from triton._C.libtriton import ir as mlir

    path: Path = tmp_path_factory.mktemp("mlir") / "module.ttir"

    def shapes(text: str) -> list[Shape] | None:
        path.write_text(text)
        context = mlir.context()
        mlir.load_dialects(context)
        try:
            module = mlir.parse_mlir_module(str(path), context)
        except RuntimeError:
            return None
        operations: list[Shape] = []

        def visit(op: Any) -> None:
            operands = [op.get_operand(i).get_type() for i in range(op.get_num_operands())]
            results = [op.get_result(i).get_type() for i in range(op.get_num_results())]
            operations.append((op.get_name(), _spell(operands), _spell(results)))

        module.walk(visit)
        return [shape for shape in operations if shape[0] != "builtin.module"]

    return shapes


@pytest.fixture(scope="session")
def our_shapes() -> Callable[[str], list[Shape]]:
    """Return a function that lists the operations of a text in post-order, as ttools parses it."""

    def shapes(text: str) -> list[Shape]:
        module = read_module(text)
        return [
            (op.name, _spell(v.type for v in op.operands), _spell(v.type for v in op.results))
            for function in module.functions.values()
            for op in _post_order(function)
        ]

    return shapes


@pytest.fixture(scope="session")
def check_links() -> Callable[[ir.Module], None]:
    """Return a function that asserts that owners, parents, uses and locations are consistent."""
    return _check_links


def _check_links(module: ir.Module) -> None:
    uses = 0
    values: list[ir.Value] = []
    for function in module.functions.values():
        assert function.parent is None
        for op in function.walk():
            assert op.location is not None or "loc(" not in str(op)
            values += op.results
            uses += len(op.operands)
            for index, operand in enumerate(op.operands):
                assert (op, index) in operand.uses
                assert str(operand.type) != "?"
            for index, result in enumerate(op.results):
                assert result.owner is op
                assert result.index == index
            for region in op.regions:
                assert region.parent is op
                for block in region.blocks:
                    assert block.parent is region
                    assert block.operations
                    assert all(inner.parent is block for inner in block.operations)
                    assert all(argument.owner is block for argument in block.arguments)
                    values += block.arguments
            for block, forwarded in op.successors:
                assert op.parent is not None
                assert block.parent is op.parent.parent
                assert len(forwarded) == len(block.arguments)
                assert [v.type for v in forwarded] == [v.type for v in block.arguments]
    assert sum(len(value.uses) for value in values) == uses


def _post_order(op: ir.Operation) -> Iterator[ir.Operation]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                yield from _post_order(inner)
    yield op


def _spell(types: Any) -> list[str]:
    """Return types as text, without differences between versions and details that the IR omits."""
    return [
        re.sub(r"tensordesc<tensor<([^<>]*)>>", r"tensordesc<\1>", str(type))
        .replace("xui", "xi")
        .replace("xsi", "xi")
        .replace("index", "i64")
        for type in types
    ]
