"""Finds arguments on which the results of a reference do not depend.

If an argument has no influence on the expected results, a candidate that uses it wrongly passes.
The plan contains calls in which one argument has different values from those in an earlier call,
while all other arguments have the same values. The expected results of both calls are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ttools.verifier.cases.plan import Case
from ttools.verifier.cases.tensors import TensorImage, dtype_of, elements, is_constant


class IndependentReferences:
    """Compares the expected results of calls that differ in one argument.

    Args:
        inplace: Names of the arguments that the function may change; they are left out.
    """

    def __init__(self, inplace: Sequence[str]) -> None:
        self._inplace = frozenset(inplace)
        #: Results of calls with the values that `inputs` returns, by the parameters and the seed.
        self._plain: dict[str, list[bytes]] = {}
        #: Arguments from which some result was computed, in at least one case.
        self._used: set[str] = set()
        #: For each argument: the parameters of `inputs` for which the results do not depend on it,
        #: and whether the reference computes with it for these parameters.
        self._independent: dict[str, tuple[str, bool]] = {}
        self._dependent: set[str] = set()

    def count(
        self,
        case: Case,
        labels: Mapping[str, str],
        sent: Mapping[str, Any],
        right: Mapping[str, Any],
    ) -> None:
        """Count a case.

        Args:
            case: A case whose results were compared.
            labels: Labels of the parameters of `inputs` that are not sizes.
            sent: Arguments of the call.
            right: Answer of the reference's process.
        """
        sources = set().union(*right.get("sources", ()))
        if case.shared is None:  # a tensor that is passed for several arguments counts for each
            self._used |= sources
        parts = [part for part in right["given"] if part["kind"] == "tensor"]
        if case.shared is not None or case.views or case.values != "drawn":
            return
        if all(is_constant(elements(part["image"])) for part in parts):
            return
        results = [part["image"].data for part in parts]
        parameters = {**case.sizes, **labels}
        key = ", ".join(f"{name}={value}" for name, value in parameters.items())
        seeded = f"{key}, seed={case.seed}"
        if not case.values_of:
            self._plain[seeded] = results
            return
        name, *others = case.values_of
        if others or seeded not in self._plain or name in self._inplace:
            return
        if not _has_floats(sent.get(name)):
            return
        if self._plain[seeded] == results:
            self._independent.setdefault(name, (key, name in sources))
        else:
            self._dependent.add(name)

    def notes(self) -> list[str]:
        """Return a sentence for each argument on which the results do not depend."""
        notes = []
        for name, (parameters, computes) in self._independent.items():
            if name in self._dependent:
                continue
            if computes:
                where = f" ({parameters})" if parameters else ""
                notes.append(
                    f"the results of the reference did not change with the values of `{name}`"
                    f"{where}, so these cases do not show whether the candidate uses it correctly"
                )
            elif name not in self._used:
                notes.append(
                    f"the reference does not use `{name}`, so no case shows whether the candidate "
                    "uses it correctly"
                )
        return notes


def _has_floats(value: Any) -> bool:
    """Return whether an argument is a non-empty tensor of floats, whose values the plan changes."""
    if not isinstance(value, TensorImage):
        return False
    return dtype_of(value.dtype).is_floating_point and 0 not in value.shape
