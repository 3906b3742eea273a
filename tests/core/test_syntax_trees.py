"""Names in syntax trees."""

from __future__ import annotations

import ast
import inspect

import pytest

from ttools.core import source_closure, syntax_trees
from ttools.core.syntax_trees import assigned_names, index_text, read_names

SOURCE = """
@decorated(by)
def kernel(x: kind, *rest, n=default, **more) -> result:
    y = z = x + 1
    (a, [b, *c]) = rest
    y += n; d: int = 3; e[f].g = lambda h: h * i
    if (walrus := j) and not k:
        del y
    for m in range(n):
        with open(o) as p:
            {q: r for q, r in s if t}
    match u:
        case Class(v=w): global used
    try: pass
    except Error as error: raise error from None
    return f"{x1!r:>{x2}}"
"""


@pytest.mark.parametrize(
    "source", [SOURCE, *map(inspect.getsource, (source_closure, syntax_trees))], ids=range(3)
)
def test_the_names_are_those_of_all_nodes(source: str) -> None:
    tree = ast.parse(source)
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    assert read_names(tree) == {node.id for node in names if isinstance(node.ctx, ast.Load)}
    assert assigned_names(tree) == {node.id for node in names if isinstance(node.ctx, ast.Store)}
    assert "y" in assigned_names(*tree.body) or source is not SOURCE


@pytest.mark.parametrize(
    ("address", "index"),
    [
        ("x_ptr + first + i", "first + i"),
        ("x_ptr + row * stride + page + 1", "page + 1"),
        ("x_ptr + 3 * i - (j - k)", "3 * i - j + k"),
        ("x_ptr + i // block", "i // block"),
        ("x_ptr - i", "-i"),
        ("x_ptr", ""),
        ("x_ptr + row * stride", ""),
    ],
)
def test_the_index_of_an_access_has_no_pointer_and_no_products(address: str, index: str) -> None:
    assert index_text(f"def kernel():\n    x = tl.load({address}, m)\n", 2, 9) == index
