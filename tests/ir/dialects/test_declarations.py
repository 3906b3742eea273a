"""Tests that the declarations of operations are complete, consistent and not repeated elsewhere."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.source_trees import SOURCES, nodes

import ttools.interpreter.emit.rules  # noqa: F401 - registers the lowerings
from ttools.interpreter import elementwise
from ttools.interpreter.emit.function import FUSED, FUSION_GROUP, LANE_SWAP, ROOTS
from ttools.ir import IntegerType, Operation, Value, dialects
from ttools.ir.dialects import OPERATIONS, UNKNOWN, declared, traits
from ttools.ir.dialects.traits import (
    ATOMIC,
    CALL,
    COMBINES,
    ELEMENTWISE,
    LOOP,
    PURE,
    READS,
    STRUCTURED,
    TERMINATOR,
    VIEW,
    WRITES,
)
from ttools.ir.parser import parse_module

#: Folders whose files may list operations: declarations, lowerings (to LLVM IR and to symbolic
#: expressions) and elementwise functions.
_FOLDERS = ("dialects", "lower", "elementwise")
#: Files that may list operations, too. The pass has a rule and a derivative for each operation on
#: floats, and supports no kernels with other operations.
_FILES = ("exact_values.py",)
#: Number of times that other files name an operation. It may only decrease.
_NAMED = 195


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_has_traits(name: str) -> None:
    assert OPERATIONS[name].traits


def test_every_lowered_operation_is_declared() -> None:
    lowered = {*ROOTS, *FUSED} - {LANE_SWAP, FUSION_GROUP}
    assert lowered <= set(OPERATIONS)


def test_the_elementwise_trait_agrees_with_the_lowerings() -> None:
    elementwise_operations = {name for name, op in OPERATIONS.items() if ELEMENTWISE in op.traits}
    assert elementwise_operations - {"tt.addptr"} == {
        n for n in OPERATIONS if elementwise.is_elementwise(n)
    }


@pytest.mark.parametrize(
    ("trait", "implied"),
    [
        (LOOP, {STRUCTURED}),
        (VIEW, {PURE}),
    ],
)
def test_traits_that_imply_others(trait: traits.Trait, implied: set[traits.Trait]) -> None:
    holders = [op for op in OPERATIONS.values() if trait in op.traits]
    assert holders
    assert all(implied <= op.traits for op in holders)


def test_atomics_access_memory() -> None:
    holders = [op for op in OPERATIONS.values() if ATOMIC in op.traits]
    assert holders
    assert all(op.traits & {READS, WRITES} for op in holders)


def test_traits_that_exclude_each_other() -> None:
    for name, op in OPERATIONS.items():
        assert not (PURE in op.traits and op.traits & {READS, WRITES, CALL}), name
        assert not (TERMINATOR in op.traits and op.traits & {STRUCTURED, COMBINES}), name


def test_unknown_operations_have_no_favourable_traits() -> None:
    op = Operation("other.thing")
    assert declared("other.thing") is UNKNOWN
    assert not op.has(PURE, VIEW, ELEMENTWISE)
    assert op.mask is None


def test_operands_have_names() -> None:
    module = parse_module("""
module {
  tt.func public @k(%p: !tt.ptr<f32>, %m: i1, %v: f32) {
    %a = tt.load %p : !tt.ptr<f32>
    %b = tt.load %p, %m : !tt.ptr<f32>
    %c = tt.load %p, %m, %v : !tt.ptr<f32>
    tt.store %p, %v : !tt.ptr<f32>
    tt.store %p, %v, %m : !tt.ptr<f32>
    tt.return
  }
}
""")
    p, m, v = module.kernel.regions[0].entry.arguments
    operations = module.kernel.regions[0].entry.operations
    named = [(op.address, op.mask, op.operand("other")) for op in operations[:5]]
    assert named == [(p, None, None), (p, m, None), (p, m, v), (p, None, None), (p, m, None)]
    assert operations[3].operand("value") is v
    assert operations[0].operand("nothing of that name") is None


def test_operands_are_found_by_operand_segment_sizes() -> None:
    op = Operation("tt.dot_scaled")
    a, b, c, scale = (Value(IntegerType(8), name, op, 0) for name in ("a", "b", "c", "scale"))
    op.operands = [a, b, c, scale]
    op.attributes["operandSegmentSizes"] = (1, 1, 1, 0, 1)
    assert op.operand("a_scale") is None
    assert op.operand("b_scale") is scale


def _is_table(node: ast.AST) -> bool:
    """Return True if a collection literal lists three or more operations."""
    if isinstance(node, ast.Dict):
        entries = node.keys
    elif isinstance(node, ast.Set | ast.Tuple | ast.List):
        entries = list(node.elts)
    else:
        return False
    texts = [e.value for e in entries if isinstance(e, ast.Constant)]
    return sum(isinstance(t, str) and t in OPERATIONS for t in texts) >= 3


def _others() -> Iterator[tuple[Path, ast.AST]]:
    """Yield the syntax nodes of the files that should query traits instead of naming operations."""
    may_list = {*_FOLDERS, *_FILES}
    return nodes(OPERATIONS, (p for p in SOURCES if not may_list & set(p.parts)))


def test_no_other_file_lists_operations() -> None:
    tables = [(path, n.lineno) for path, n in _others() if isinstance(n, ast.expr) and _is_table(n)]
    assert not tables


def test_other_files_name_no_more_operations() -> None:
    """Count names that other files contain; each is a place that can miss a new operation."""
    named = Counter(
        path.name
        for path, node in _others()
        if isinstance(node, ast.Constant) and node.value in OPERATIONS
    )
    assert named.total() == _NAMED, f"if {named.total()} is less, set _NAMED to it: {named}"


def test_the_ir_imports_no_large_package() -> None:
    """Parser, declarations, IR and domains import neither torch, Triton, llvmlite nor NumPy."""
    script = """
import importlib, pkgutil, sys

for module in pkgutil.walk_packages([sys.argv[1]], "ttools.ir."):
    importlib.import_module(module.name)
print(*{"torch", "triton", "llvmlite", "numpy"}.intersection(sys.modules))
"""
    folder = Path(dialects.__file__).parents[1]
    completed = subprocess.run(
        [sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=True
    )
    assert not completed.stdout.split()
