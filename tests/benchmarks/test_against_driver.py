"""The comparison of the resources that `ttools inspect` reports with those of a GPU's driver."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_configurations_set_the_parameters_of_their_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    cases = import_module("workloads.configurations").cases()
    configurations = 0
    for make in cases.values():
        case = make()
        parameters = case.kernel.arg_names
        rest = {*parameters[len(case.arguments) :]} - case.constants.keys()
        for config in case.configs():
            configurations += 1
            assert config.kwargs.keys() <= rest <= {*config.kwargs, "TRANSPOSED"}
            assert all(extent >= 1 for extent in case.grid(config.all_kwargs()))
    assert len(cases) >= 10
    assert configurations >= 60


def test_differences_name_the_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    compared = import_module("against_driver").Compared

    def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
        inspect = {"values": {"BLOCK": 64}, "reason": "", **ours}
        lines: list[str] = compared(name="k", inspect=[inspect], driver=[theirs]).differences()
        return lines

    fits = {"fits": True, "registers": 32, "local": 0, "shared": 1024}
    assert differences(fits, fits) == []
    assert differences(fits, {**fits, "local": 8}) == ["k {'BLOCK': 64}: local 0, driver 8 "]
    refused = {"fits": False, "reason": "OutOfResources"}
    (line,) = differences(fits, refused)
    assert line.endswith("fits True, driver False OutOfResources")
    assert differences({**refused, "registers": None}, refused) == []
