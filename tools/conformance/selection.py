"""Which files of a checkout are run, and which cases of them: by name, and by a seeded sample."""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from tools.conformance.outcomes import Case

MARK = "pytest.mark.interpreter"


class UsageError(Exception):
    """The checkout or a name is not what it should be; says what is."""


def find_tests(checkout: Path) -> Path:
    """Returns the folder of the checkout that holds `unit` and its conftest.py.

    Args:
        checkout: a Triton checkout, or its `python/test`.
    """
    for folder in (checkout / "python" / "test", checkout):
        if (folder / "unit").is_dir():
            return folder.resolve()
    raise UsageError(f"{checkout} has no python/test/unit: name a checkout of Triton's sources")


def marked_functions(file: Path) -> list[str]:
    """Names the marked test functions of a file, from its source alone.

    Returns:
        Names as `test_core.py::test_bin_op`.
    """
    try:
        tree = ast.parse(file.read_text(encoding="utf-8"))
    except SyntaxError:  # another Python's; pytest tells it when it imports the file
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            marks = (ast.unparse(mark).partition("(")[0] for mark in node.decorator_list)
            if MARK in marks:
                found.append(f"{file.name}::{node.name}")
    return found


def find_files(tests: Path, only: Collection[str]) -> dict[Path, list[str]]:
    """Maps the files with marked functions to these functions.

    Args:
        tests: the checkout's `python/test`.
        only: names of functions; none means all.
    """
    found: dict[Path, list[str]] = {}
    for file in sorted((tests / "unit").rglob("test_*.py")):
        functions = [name for name in marked_functions(file) if is_wanted(name, only)]
        if functions:
            found[file] = functions
    if not found:
        wanted = f" named {', '.join(sorted(only))}" if only else ""
        raise UsageError(f"{tests / 'unit'} has no function{wanted} marked @{MARK}")
    return found


def is_wanted(function: str, only: Collection[str]) -> bool:
    """Whether `--only` names the function, with or without its file."""
    return not only or function in only or function.partition("::")[2] in only


def by_function(cases: Iterable[Case]) -> dict[str, list[Case]]:
    """Groups cases by their function, both in the order of collection."""
    groups: dict[str, list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.function].append(case)
    return dict(groups)


def sample(cases: Sequence[Case], size: int | None, seed: int) -> Iterator[Case]:
    """Yields at most `size` cases of each function.

    A function's sample depends on the seed and its own cases only, so that `--only` repeats what a
    run of all functions did.
    """
    for function, group in by_function(cases).items():
        if size is None or len(group) <= size:
            yield from group
        else:
            chosen = set(random.Random(f"{seed} {function}").sample(range(len(group)), size))
            yield from (case for index, case in enumerate(group) if index in chosen)
