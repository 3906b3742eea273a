"""A session of Proton that a program's own calls for all sessions spare; Proton's is a stand-in."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from ttools.profiler.gpu import proton

_FOR_ONE = ("finalize", "activate", "deactivate")


class Native(ModuleType):
    """Numbers sessions, and keeps what is asked of them."""

    def __init__(self, first: int) -> None:
        super().__init__("libproton")
        self.calls: list[tuple[Any, ...]] = []
        self.next = first
        for name in (*_FOR_ONE, *(f"{name}_all" for name in _FOR_ONE)):
            setattr(self, name, lambda *words, name=name: self.calls.append((name, *words)))

    def start(self, *_: object) -> int:
        """Starts a session."""
        self.next += 1
        return self.next - 1


@pytest.mark.parametrize("name", _FOR_ONE)
def test_calls_for_all_mean_all_others(name: str) -> None:
    native = Native(1)
    before = dict(vars(native))
    with proton._spared(native, 1 - 1):
        assert [native.start(), native.start()] == [1, 2]
        native.finalize(1)
        native.calls.clear()
        getattr(native, f"{name}_all")()
        assert native.calls == [(name, 2)]
    assert {**vars(native), "next": 1} == before


def test_of_two_sessions_of_ours_the_first_may_end_first() -> None:
    native = Native(2)
    first, second = proton._spared(native, 0), proton._spared(native, 1)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    native.deactivate_all()
    assert native.calls == [("deactivate", 0)]  # it is nobody's that is spared any more
    second.__exit__(None, None, None)
    native.deactivate_all()
    assert native.calls[-1] == ("deactivate_all",)
