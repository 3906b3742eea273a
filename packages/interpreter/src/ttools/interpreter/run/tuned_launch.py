"""A launch of an autotuned kernel, before a configuration is chosen.

This is the interface between autotuners and the code that runs their configurations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TunedCall:
    """A call of an autotuned kernel; at least one of its configurations has to run.

    Attributes:
        configs: Configurations that the tuner's early pruning keeps, in its order; at least one.
        arguments: Arguments of the call by the name of the parameter or option.
        run: Launches the kernel in one of the configurations, untimed, and returns what Triton
            returns. The first one that succeeds counts as the tuner's choice.
        choose: Makes a configuration the tuner's choice, regardless of which one ran first.
        compiled: Compiles a configuration with Triton's front end, without a launch; the result's
            `src` is the specialised kernel. The configuration's pre-launch hook is called.
        key: Values that determine the configuration, in the tuner's order: it tunes anew for each
            key.
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
    """Run the first configuration only."""
    return launch.run(launch.configs[0])
