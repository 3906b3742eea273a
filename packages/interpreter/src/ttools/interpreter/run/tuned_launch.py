"""A launch of an autotuned kernel, before its configuration is chosen.

This is the interface between autotuners and the code that runs their configurations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class TunedCall:
    """A call of an autotuned kernel; at least one of its configurations must run.

    Attributes:
        kernel: Name of the kernel.
        tuner: Triton's autotuner of the kernel.
        configs: Configurations that remain after the tuner's early pruning, in its order; at least
            one.
        arguments: Arguments of the call, by the name of the parameter or option.
        run: Launches the kernel in a configuration, without timing it, and returns the result of
            Triton's launch. The first configuration that succeeds is recorded as the tuner's
            choice.
        choose: Records another configuration as the tuner's choice.
        compiled: Compiles a configuration with Triton's front end, without a launch. The attribute
            `src` of the result is the specialised kernel. The configuration's pre-launch hook is
            called.
        pruned: Returns the configurations that early pruning leaves for the arguments of this call.
            They differ from `configs` if pruning depends on arguments that are not in the key. By
            default, there are none.
        key: The values for which the autotuner chooses a configuration; it tunes again for each
            different key.
    """

    kernel: str
    tuner: Any
    configs: Sequence[Any]
    arguments: Mapping[str, Any]
    run: Callable[[Any], Any]
    choose: Callable[[Any], None]
    compiled: Callable[[Any], Any]
    pruned: Callable[[], Sequence[Any]] = tuple
    key: tuple[Any, ...]


def run_first(launch: TunedCall) -> Any:
    """Run only the first configuration."""
    return launch.run(launch.configs[0])
