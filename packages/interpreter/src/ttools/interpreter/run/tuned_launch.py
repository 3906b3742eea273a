"""A launch of an autotuned kernel, before a configuration is chosen.

The interface between autotuners and whoever runs their configurations. Must not know how a
configuration is run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TunedCall:
    """One call of an autotuned kernel; at least one configuration is to run.

    Attributes:
        configs: what its own early pruning leaves, in its order; at least one.
        arguments: all that was passed, by the name of the parameter or option.
        run: launches the kernel in one of the configurations, untimed, and returns what Triton
            returns. The first one that succeeds counts as the tuner's choice.
        choose: makes a configuration the tuner's choice, whatever ran first.
        compiled: what Triton's front end makes of a configuration, without a launch; its `src`
            is the specialised kernel. Its hook before a launch is called.
        key: the values for which the tuner tunes apart, in its order.
    """

    kernel: str
    tuner: Any
    configs: Sequence[Any]
    arguments: Mapping[str, Any]
    run: Callable[[Any], Any]
    choose: Callable[[Any], None]
    compiled: Callable[[Any], Any]
    key: tuple[Any, ...]


def run_first(launch: TunedCall) -> Any:
    """Runs the first configuration only."""
    return launch.run(launch.configs[0])
