"""ttools' session of Proton is not affected by a program's calls for all sessions.

A class of this file replaces Proton.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from ttools.profiler.gpu import proton

_FOR_ONE = ("finalize", "activate", "deactivate")


class Native(ModuleType):
    """Numbers sessions and records the calls."""

    def __init__(self, first: int) -> None:
        super().__init__("libproton")
        self.calls: list[tuple[Any, ...]] = []
        self.next = first
        for name in (*_FOR_ONE, *(f"{name}_all" for name in _FOR_ONE)):
            setattr(self, name, lambda *words, name=name: self.calls.append((name, *words)))

    def start(self, *_: object) -> int:
        """Start a session."""
        self.next += 1
        return self.next - 1


@pytest.mark.parametrize("name", _FOR_ONE)
def test_calls_for_all_sessions_omit_that_of_ttools(name: str) -> None:
    native = Native(1)
    before = dict(vars(native))
    with proton._spared(native, 1 - 1):
        assert [native.start(), native.start()] == [1, 2]
        native.finalize(1)
        native.calls.clear()
        getattr(native, f"{name}_all")()
        assert native.calls == [(name, 2)]
    assert {**vars(native), "next": 1} == before


def test_the_first_of_two_sessions_may_end_first() -> None:
    native = Native(2)
    first, second = proton._spared(native, 0), proton._spared(native, 1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    native.deactivate_all()
    assert native.calls == [("deactivate", 0)]  # no session is exempt any more
    second.__exit__(None, None, None)
    native.deactivate_all()
    assert native.calls[-1] == ("deactivate_all",)
