"""Tests of values that are computed once for all callers, including concurrent threads."""

from __future__ import annotations

import ast
import threading
from concurrent.futures import ThreadPoolExecutor

from tests.source_trees import nodes

from ttools.core.lazy_values import computed_once, once

#: Resources that cannot be freed while they are in use: loaded code, and MLIR contexts.
_RESOURCES = ("NativeCode", "NativeRuntime", "context")


def test_concurrent_first_callers_get_the_same_result() -> None:
    together = threading.Barrier(4)

    @once
    def compute() -> object:
        together.wait()
        return object()

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: compute(), range(4)))
    assert {*results} == {compute()}


def test_an_exception_is_not_kept() -> None:
    attempts: list[int] = []

    @once
    def compute() -> int:
        attempts.append(1)
        return 1 // (len(attempts) - 1)

    for _ in range(2):
        try:
            compute()
        except ZeroDivisionError:
            continue
    assert compute() == 1
    assert len(attempts) == 2


def test_no_cache_of_functools_holds_a_resource() -> None:
    """Check that no function that creates a resource uses a cache of functools.

    If two threads call such a function first, each gets a result, but the cache keeps only one.
    """
    cached = [
        f"{path.name}: {node.name}"
        for path, node in nodes(_RESOURCES)
        if isinstance(node, ast.FunctionDef)
        and any("cache" in ast.unparse(decorator) for decorator in node.decorator_list)
        and any(name in (ast.unparse(node.returns or node), node.name) for name in _RESOURCES)
    ]
    assert not cached


def test_properties_of_different_objects_are_computed_concurrently() -> None:
    barrier = threading.Barrier(2, timeout=60)

    class Slow:
        calls = 0

        @computed_once
        def value(self) -> int:
            self.calls += 1
            barrier.wait()
            return id(self)

    slow = [Slow(), Slow()]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda item: item.value, slow)) == list(map(id, slow))
    assert [(item.value, item.calls) for item in slow] == [(id(item), 1) for item in slow]
    assert isinstance(Slow.value, computed_once)
