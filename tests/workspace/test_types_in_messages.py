"""Messages spell types as users of Triton do, not as MLIR does."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
#: Errors about kernels. Errors of the parser and the verification quote the user's own TTIR.
_ERRORS = frozenset({"UnsupportedError", "NotModelledError"})
#: Values whose text is not MLIR's: types of `triton.language`.
_SPELLED = frozenset({"packages/interpreter/src/ttools/interpreter/eager/control.py"})


def _types_in_messages(file: Path) -> Iterator[str]:
    """Yield expressions for IR types that an error shows without `type_in_words`."""
    for node in ast.walk(ast.parse(file.read_text())):
        if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") in _ERRORS):
            continue
        for shown in ast.walk(node):
            if isinstance(shown, ast.FormattedValue):
                text = ast.unparse(shown.value)
                is_type = text.rpartition(".")[2] in ("type", "element", "pointee")
                is_type |= text.endswith(".type)") and not text.startswith("type_in_words(")
                if is_type:
                    yield f"{file.name}:{node.lineno}: {text}"


def test_errors_about_kernels_show_types_in_words() -> None:
    files = [*_ROOT.glob("packages/*/src/**/*.py")]
    assert len(files) > 500
    found = [
        text
        for file in files
        if file.relative_to(_ROOT).as_posix() not in _SPELLED
        for text in _types_in_messages(file)
    ]
    assert not found


@pytest.mark.parametrize("folder", ["tests/core/reports/goldens", "tests/sanitizer/gpu/goldens"])
def test_reports_have_no_types_of_mlir(folder: str) -> None:
    files = [file for file in (_ROOT / folder).rglob("*") if file.is_file()]
    assert files
    for file in files:
        assert "!tt." not in file.read_text(), file
