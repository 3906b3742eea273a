"""Fixtures of the profiler's tests."""

from __future__ import annotations

from tests.core.conftest import dump_dom

__all__ = ["dump_dom"]
