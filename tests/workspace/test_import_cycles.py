"""Source files have no import cycles, counting imports in functions and for type checking."""

import ast
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[parts.index("src") + 1 :]).removesuffix(".__init__")


def _imports(name: str, source: str, modules: Mapping[str, object]) -> set[str]:
    imported: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
    return (imported & modules.keys()) - {name}


def _order(sources: Mapping[str, str]) -> list[str]:
    graph = {name: _imports(name, source, sources) for name, source in sources.items()}
    return list(TopologicalSorter(graph).static_order())


def test_there_are_no_cycles() -> None:
    paths = _ROOT.glob("packages/*/src/**/*.py")
    sources = {_module_name(path): path.read_text("utf-8") for path in paths}
    try:
        assert len(_order(sources)) > 500
    except CycleError as error:
        pytest.fail(f"import cycle: {' <- '.join(error.args[1])}")


def test_a_cycle_inside_a_function_counts() -> None:
    with pytest.raises(CycleError):
        _order({"a": "from b import f", "b": "def f():\n    import a"})
