"""Tests of concurrent compilation with versions of Python whose parser is not thread-safe."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from triton.runtime.jit import JITFunction

from ttools.interpreter.frontend import parsing


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ((3, 10, 14), False), ((3, 11, 0), True), ((3, 11, 7), True), ((3, 11, 8), False),
        ((3, 12, 1), True), ((3, 12, 2), False), ((3, 13, 0), False),
    ],
)  # fmt: skip
def test_affected_versions(version: tuple[int, int, int], affected: bool) -> None:
    assert parsing.is_affected(version) is affected


def test_only_one_thread_parses_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    owner: Any = next(base for base in JITFunction.__mro__ if "parse" in vars(base))
    inside, most = [0], [0]
    ready = threading.Barrier(4)

    def slow(self: object) -> str:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        threading.Event().wait(0.01)
        inside[0] -= 1
        return "parsed"

    monkeypatch.setattr(owner, "parse", slow)
    monkeypatch.setattr(parsing, "is_affected", lambda version: True)
    parsing.parse_one_by_one()
    parsing.parse_one_by_one()
    parsed = []

    def parse() -> None:
        ready.wait(10)
        parsed.append(owner.parse(None))

    threads = [threading.Thread(target=parse) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert parsed == ["parsed"] * 4
    assert most == [1]
