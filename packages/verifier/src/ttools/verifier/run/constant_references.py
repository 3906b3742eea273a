"""Finds inputs for which a correct reference proves nothing, because its results are constant.

If a reference underflows to 0 in every element, a candidate that computes something else may
underflow as well, and the comparison cannot distinguish the two. Notes describe only cases with the
values that `inputs` returns, because special values are expected to lead to constants.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import torch

from ttools.core.reports.numbers import number
from ttools.core.reports.report import counted
from ttools.verifier.cases.plan import Case
from ttools.verifier.cases.tensors import elements, is_constant


class ConstantReferences:
    """Counts cases by the parameters of `inputs`, and how many of them have constant results."""

    def __init__(self) -> None:
        self._special_values_differ = False
        self._counted: Counter[str] = Counter()
        self._constant: dict[str, Counter[str]] = defaultdict(Counter)

    def count(self, case: Case, labels: Mapping[str, str], right: Mapping[str, Any]) -> None:
        """Count a case.

        Args:
            case: A case whose results were compared.
            labels: Labels of the parameters of `inputs` that are not sizes.
            right: Answer of the reference's process.
        """
        results = [elements(part["image"]) for part in right["given"] if part["kind"] == "tensor"]
        results = [result.reshape(-1) for result in results if result.numel() > 1]
        # A constant result that replaces the elements of an argument still differs from the old
        # elements.
        if not results or any(part["name"].endswith(" after the call") for part in right["given"]):
            return
        same = all(map(is_constant, results))
        if case.values != "drawn" or case.values_of:
            self._special_values_differ |= not same
            return
        key = ", ".join(f"{name}={label}" for name, label in labels.items())
        self._counted[key] += 1
        if same:
            values = dict.fromkeys(_text(result[0]) for result in results)
            self._constant[key][" and ".join(values)] += 1

    @property
    def is_everywhere(self) -> bool:
        """True if the reference was constant in all cases, including those with special values."""
        return self._is_constant_for_inputs and not self._special_values_differ

    @property
    def _is_constant_for_inputs(self) -> bool:
        return bool(self._counted) and self._constant_cases() == self._counted

    def notes(self) -> list[str]:
        """Return a sentence for each choice of parameters for which the reference is constant."""
        if self._is_constant_for_inputs:
            values: Counter[str] = sum(self._constant.values(), Counter())
            return [_sentence("", values)]
        cases = self._constant_cases()
        return [
            _sentence(f" for {key}" if key else "", self._constant[key])
            for key, count in self._counted.items()
            if count > 1 and cases[key] == count
        ]

    def _constant_cases(self) -> Counter[str]:
        return Counter({key: values.total() for key, values in self._constant.items()})


def _text(element: torch.Tensor) -> str:
    value = element.item()
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else number(value + 0.0)  # -0.0 is 0
    return str(value)


def _sentence(where: str, values: Counter[str]) -> str:
    value = next(iter(values)) if len(values) == 1 else "constant"
    cases = counted(values.total(), "case")
    return (
        f"the reference is {value} in every element of {cases} with values from `inputs`{where}, "
        "which therefore prove nothing; let `inputs` return values for which the results differ"
    )
