"""Launches kernels of FlagGems: the operators that `tools.libraries` compares with torch."""

# mypy: disable-error-code="import-untyped, import-not-found"

from __future__ import annotations

import contextlib
import importlib
import os
import sys

import torch

from tools.libraries.flag_gems_operators import OPERATORS
from ttools.interpreter import device_map


def launch() -> None:
    """Run each operator in one type."""
    # FlagGems determines the vendor of the GPU when it is imported.
    os.environ.setdefault("GEMS_VENDOR", "nvidia")
    with contextlib.redirect_stdout(sys.stderr):
        operators = importlib.import_module("flag_gems").ops
    for operator in OPERATORS:
        torch.manual_seed(0)
        # Other versions of the package may lack an operator.
        with contextlib.suppress(Exception):
            arguments = operator.arguments(operator.types[0], "cuda")
            getattr(operators, operator.name)(*arguments, **dict(operator.keywords))


with device_map("cuda=cpu"):
    launch()
