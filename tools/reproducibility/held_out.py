"""Kernels that were written after the rules of the verdicts were finished."""

from __future__ import annotations

from tools.reproducibility.cases import Cases

CASES = Cases()
