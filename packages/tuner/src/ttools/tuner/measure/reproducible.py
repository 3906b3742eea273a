"""Classes of configurations with equal bits as data, and the option that selects a class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ttools.core.errors import UsageError

#: Values of the option that do not name a configuration.
FIRST, CLASSES = "first", "classes"


@dataclass(frozen=True, kw_only=True)
class BitClasses:
    """The classes of the configurations of a problem.

    Attributes:
        target: The GPU for which the orders of evaluation were compared, such as `sm_90`.
        same_as: Key of the first configuration with equal bits, by the key of each configuration.
        unknown: Reasons why configurations cannot be compared with others, by key. Each of these
            configurations is alone in its class.
    """

    target: str
    same_as: Mapping[str, str] = field(default_factory=dict)
    unknown: Mapping[str, str] = field(default_factory=dict)

    def covers(self, keys: Iterable[str]) -> bool:
        """Return whether the classes of all configurations with these keys are known."""
        return all(key in self.same_as for key in keys)

    def equal_to(self, key: str) -> list[str]:
        """Return the keys of the configurations bit-equal to a given one, itself included."""
        own = self.same_as.get(key)
        return [other for other, first in self.same_as.items() if own and first == own]


def read_values(text: str) -> dict[str, str]:
    """Read values such as `BLOCK=64,num_warps=4`.

    Raises:
        UsageError: The text does not have this form.
    """
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and equals and value.strip() for name, equals, value in pairs):
        raise UsageError(
            f"reproducible={text}: must be first, classes, or values of a configuration such as "
            "BLOCK=64,num_warps=4"
        )
    return {name.strip(): value.strip() for name, _, value in pairs}
