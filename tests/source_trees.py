"""Syntax trees of the packages' sources, for tests that check a rule in all of them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

SOURCES = sorted((Path(__file__).parents[1] / "packages").rglob("src/**/*.py"))


def nodes(words: Iterable[str], paths: Iterable[Path] = SOURCES) -> Iterator[tuple[Path, ast.AST]]:
    """Yield all nodes of the files that contain one of the words; other files are not parsed."""
    wanted = tuple(words)
    for path in paths:
        text = path.read_text("utf-8")
        if any(word in text for word in wanted):
            for node in ast.walk(ast.parse(text)):
                yield path, node
