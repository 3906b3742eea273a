"""Selection of test files and cases in a checkout: by name, and by a seeded sample."""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from tools.conformance.outcomes import Case

MARK = "pytest.mark.interpreter"


class UsageError(Exception):
    """The checkout or a name is invalid; the message says what is expected."""


def find_tests(checkout: Path) -> Path:
    """Return the folder of the checkout that contains `unit` and its conftest.py.

    Args:
        checkout: A Triton checkout, or its `python/test`.
    """
    for folder in (checkout / "python" / "test", checkout):
        if (folder / "unit").is_dir():
            return folder.resolve()
    raise UsageError(f"{checkout} has no python/test/unit: name a checkout of Triton's sources")


def marked_functions(file: Path) -> list[str]:
    """Return the names of the marked test functions of a file, from its source alone.

    Returns:
        Names such as `test_core.py::test_bin_op`.
    """
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except SyntaxError:  # not this Python's syntax; pytest reports the error on import
        return []
    functions = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            marks = (ast.unparse(mark).partition("(")[0] for mark in node.decorator_list)
            if MARK in marks:
                functions.append(f"{file.name}::{node.name}")
    return functions


def find_files(tests: Path, only: Collection[str]) -> dict[Path, list[str]]:
    """Return the marked functions by file.

    Args:
        tests: The folder `python/test` of the checkout.
        only: Names of functions; empty for all.
    """
    by_file: dict[Path, list[str]] = {}
    for file in sorted((tests / "unit").rglob("test_*.py")):
        functions = [name for name in marked_functions(file) if is_wanted(name, only)]
        if functions:
            by_file[file] = functions
    if not by_file:
        wanted = f" named {', '.join(sorted(only))}" if only else ""
        raise UsageError(f"{tests / 'unit'} has no function{wanted} marked @{MARK}")
    return by_file


def is_wanted(function: str, only: Collection[str]) -> bool:
    """Return whether `--only` names the function, with or without its file."""
    return not only or function in only or function.partition("::")[2] in only


def by_function(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """Group cases by function; functions and cases stay in the order of collection."""
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.function].append(case)
    return dict(groups)


def sample(cases: Sequence[Case], size: int | None, seed: int) -> Iterator[Case]:
    """Yield at most `size` cases of each function.

    The sample of a function depends only on the seed and the function's cases. Therefore a run
    with `--only` repeats the cases of a run of all functions.
    """
    for function, group in by_function(cases).items():
        if size is None or len(group) <= size:
            yield from group
        else:
            chosen = set(random.Random(f"{seed} {function}").sample(range(len(group)), size))
            yield from (case for index, case in enumerate(group) if index in chosen)
