"""Tests of the run to which a launch belongs, which depends on its thread."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ttools.interpreter import interpret
from ttools.interpreter.run.interpretation import Run, active_run


def run_of_another_thread() -> Run | None:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(active_run).result()


def test_other_threads_belong_to_the_innermost_shared_run() -> None:
    with interpret():
        outer = active_run()
        assert outer is not None
        with interpret().unshared():
            assert active_run() is not outer
            assert run_of_another_thread() is outer
        with interpret():
            assert run_of_another_thread() is active_run()
    with interpret().unshared():
        assert run_of_another_thread() is None
