"""One result for all callers, threads that ask first at the same time among them."""

from __future__ import annotations

import ast
import threading
from concurrent.futures import ThreadPoolExecutor

from tests.source_trees import nodes

from ttools.core.once import computed_once, once

#: What must not be freed while somebody uses it: loaded code, and what MLIR's objects belong to.
_RESOURCES = ("NativeCode", "NativeRuntime", "context")


def test_first_callers_at_once_get_the_same() -> None:
    together = threading.Barrier(4)

    @once
    def made() -> object:
        together.wait()
        return object()

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: made(), range(4)))
    assert {*results} == {made()}


def test_an_error_is_no_result() -> None:
    attempts: list[int] = []

    @once
    def made() -> int:
        attempts.append(1)
        return 1 // (len(attempts) - 1)

    for _ in range(2):
        try:
            made()
        except ZeroDivisionError:
            continue
    assert made() == 1
    assert len(attempts) == 2


def test_no_cache_of_functools_holds_a_resource() -> None:
    """Those keep another result than they have given out."""
    cached = [
        f"{path.name}: {node.name}"
        for path, node in nodes(_RESOURCES)
        if isinstance(node, ast.FunctionDef)
        and any("cache" in ast.unparse(decorator) for decorator in node.decorator_list)
        and any(name in (ast.unparse(node.returns or node), node.name) for name in _RESOURCES)
    ]
    assert not cached


def test_objects_compute_their_properties_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=60)

    class Slow:
        calls = 0

        @computed_once
        def value(self) -> int:
            self.calls += 1
            both.wait()
            return id(self)

    slow = [Slow(), Slow()]
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda each: each.value, slow)) == list(map(id, slow))
    assert [(each.value, each.calls) for each in slow] == [(id(each), 1) for each in slow]
    assert isinstance(Slow.value, computed_once)
