"""`Sweep`: compares implementations over shapes.

For each shape, the results of all implementations are compared first. Then the implementations are
timed, alternately on the CPU and one after the other on a GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Any, Literal, get_args

import pandas as pd
import torch

from ttools.core.environment import gpu_usable
from ttools.core.errors import UsageError
from ttools.core.reports.result import Result
from ttools.core.reports.wrapping import shortened
from ttools.interpreter import interpret
from ttools.profiler.intervals import difference
from ttools.profiler.sweep.calls import (
    Duration,
    Pass,
    Task,
    copied,
    greatest_error,
    mismatch,
    on_gpu,
    time_alternately,
    time_on_gpu,
)

_SCHEMA = "ttools.sweep/1"
#: Maximum length of the message of an exception in a report.
_LONGEST = 200


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The measurement of one implementation at one shape.

    Attributes:
        shape: Keyword arguments of `inputs` for this shape.
        implementation: Name of the implementation.
        time: Time of a call; None if the call failed.
        speedup: Median time of the baseline divided by that of the implementation; None if either
            time is unknown.
        speedup_within: Interval of the speed-up, computed as by `ttools profile compare`; None for
            the baseline, or if there are too few samples.
        error: The largest difference of any element from the baseline's result, divided by the
            largest finite magnitude in the baseline's result.
        bytes: Number of bytes of the tensors passed and returned, see `Task`.
        flops: Number of operations of the matrix products, convolutions and attentions in the
            baseline's calls to torch.
        failure: The error message in one line; empty if the call succeeded.
    """

    shape: Mapping[str, Any]
    implementation: str
    time: Duration | None = None
    speedup: float | None = None
    speedup_within: tuple[float, float] | None = None
    error: float | None = None
    bytes: int = 0
    flops: int = 0
    failure: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return a row with times in seconds, and with throughputs that follow from the median."""
        time = self.time
        return {
            **{name: shown_value(value) for name, value in self.shape.items()},
            "implementation": self.implementation,
            "time_s": time.median if time else None,
            "low_s": time.low if time else None,
            "high_s": time.high if time else None,
            "speedup": self.speedup,
            "speedup_low": self.speedup_within[0] if self.speedup_within else None,
            "speedup_high": self.speedup_within[1] if self.speedup_within else None,
            "error": self.error,
            "gbytes": self.bytes / time.median / 1e9 if time else None,
            "tflops": self.flops / time.median / 1e12 if time and self.flops else None,
            "failure": self.failure or None,
        }


class Sweep(Result):
    """A comparison of implementations over shapes.

    Args:
        implementations: Functions by name, which take the arguments from `inputs` as keyword
            arguments. They return tensors, or write to their arguments and return None.
        inputs: Function that takes the values of a shape as keyword arguments, and returns the
            keyword arguments of the implementations.
        shapes: The arguments of `inputs` for each shape.
        which: The pass to measure. For a backward pass, the gradients of the arguments that require
            gradients are compared; if both passes are measured, the results are compared, too.
        baseline: The implementation to which speed-ups and errors refer; the first by default.
        on: Where kernels run; `auto` is the GPU if there is one. The tensors that `inputs` returns
            are moved there.
        threads: Number of threads that run a launch on the CPU; by default as many as torch uses.
        repeat_s: Number of seconds for which each implementation is repeated at each shape.

    Attributes:
        rows: The measurements so far.
        total: Number of shapes to measure.
        done: Number of shapes measured so far.

    Raises:
        UsageError: There is no implementation or no shape, the baseline is not an implementation,
            or there is no GPU.
    """

    def __init__(
        self,
        implementations: Mapping[str, Callable[..., Any]],
        inputs: Callable[..., Mapping[str, Any]],
        shapes: Sequence[Mapping[str, Any]],
        *,
        which: Pass = "forward",
        baseline: str | None = None,
        on: Literal["auto", "cpu", "gpu"] = "auto",
        threads: int | None = None,
        repeat_s: float = 0.1,
    ) -> None:
        if not implementations or not shapes:
            raise UsageError("a sweep needs at least one implementation and one shape")
        if baseline is not None and baseline not in implementations:
            names = ", ".join(implementations)
            raise UsageError(f"the baseline `{baseline}` is not one of {names}")
        if which not in get_args(Pass):
            raise UsageError(f"which={which!r}: must be one of {', '.join(get_args(Pass))}")
        if on not in ("auto", "cpu", "gpu"):
            raise UsageError(f"on={on!r}: must be auto, cpu or gpu")
        if on == "gpu" and not gpu_usable():
            raise UsageError("on='gpu': there is no GPU here that torch can use")
        if not 0 <= repeat_s < float("inf"):
            raise UsageError(
                f"repeat_s={repeat_s!r}: must be a finite number of seconds, 0 or more"
            )
        first = baseline or next(iter(implementations))
        self.baseline = first
        self.which = which
        #: The baseline is called first, because the other implementations are compared with it.
        self._implementations = {first: implementations[first], **implementations}
        self._order = list(implementations)
        self._inputs = inputs
        self._shapes = list(shapes)
        self._on_gpu = on != "cpu" and gpu_usable()
        self._threads = threads
        self._repeat_s = repeat_s
        self.rows: list[Measurement] = []
        self.total = len(self._shapes)
        self.done = 0

    @property
    def failures(self) -> list[Measurement]:
        """Return the measurements that failed."""
        return [row for row in self.rows if row.failure]

    @property
    def passed(self) -> bool:
        """Return whether all shapes were measured without a failure."""
        return self.done == self.total and not self.failures

    @property
    def timed_on(self) -> str:
        """Return the GPU's name, or `CPU`."""
        return torch.cuda.get_device_name() if self._on_gpu else "CPU"

    @property
    def of_pass(self) -> str:
        """Return the measured pass in words; empty for the forward pass."""
        words = {"forward": "", "backward": " of the backward pass"}
        return words.get(self.which, " of forward and backward pass")

    @property
    def frame(self) -> pd.DataFrame:
        """Return a row per shape and implementation, see `Measurement.as_dict`."""
        return pd.DataFrame([row.as_dict() for row in self.rows])

    @property
    def varying(self) -> list[str]:
        """Return the parameters that differ between shapes; all if there is only one shape."""
        names = list(dict.fromkeys(name for shape in self._shapes for name in shape))
        differing = [
            name
            for name in names
            if len(Counter(shown_value(shape.get(name)) for shape in self._shapes)) > 1
        ]
        return differing or names

    @property
    def implementations(self) -> tuple[str, ...]:
        """Return the names of the implementations, in the order in which they were given."""
        return tuple(self._order)

    def as_dict(self) -> dict[str, Any]:
        """Return the sweep for JSON, schema `ttools.sweep/1`."""
        return {
            "schema": _SCHEMA,
            "timed_on": self.timed_on,
            "baseline": self.baseline,
            "pass": self.which,
            "shapes": {"measured": self.done, "total": self.total},
            "rows": [row.as_dict() for row in self.rows],
        }

    def run(self) -> Sweep:
        """Measure all remaining shapes, and return the sweep."""
        for shape in self._shapes[self.done :]:
            with self._running():
                measured = list(self._measured(shape))
            order = self._order.index
            self.rows += sorted(measured, key=lambda row: order(row.implementation))
            self.done += 1
        return self

    def _running(self) -> AbstractContextManager[Any]:
        return torch.device("cuda") if self._on_gpu else interpret(threads=self._threads)

    def _measured(self, shape: Mapping[str, Any]) -> Iterator[Measurement]:
        try:
            arguments = self._drawn(shape)
        except Exception as error:  # noqa: BLE001 - the user's
            text = f"`inputs` fails: {_line(error)}"
            yield from (
                Measurement(shape=shape, implementation=name, failure=text) for name in self._order
            )
            return
        outputs: dict[str, list[torch.Tensor]] = {}
        sizes: dict[str, int] = {}
        failures: dict[str, str] = {}
        for name in self._implementations:
            task = self._task(name, arguments)
            try:
                outputs[name] = task.call()
                self._wait()
            except Exception as error:  # noqa: BLE001 - the implementation's
                failures[name] = _line(error)
                continue
            sizes[name] = task.bytes
        wanted = outputs.get(self.baseline)
        if wanted is not None:
            for name, own_outputs in outputs.items():
                failures |= {name: text} if (text := mismatch(own_outputs, wanted)) else {}
        flops = self._flops(arguments) if wanted is not None else 0
        times = self._timed({n: arguments for n in outputs if n not in failures})
        failures |= {
            n: _line(outcome) for n, outcome in times.items() if isinstance(outcome, Exception)
        }
        durations = {n: outcome for n, outcome in times.items() if isinstance(outcome, Duration)}
        reference = durations.get(self.baseline)
        for name in self._implementations:
            time = durations.get(name)
            compared = wanted is not None and name in outputs and name not in failures
            yield Measurement(
                shape=shape,
                implementation=name,
                time=time,
                speedup=reference.median / time.median if reference and time else None,
                speedup_within=speedup_within(reference, time) if name != self.baseline else None,
                error=greatest_error(outputs[name], wanted or []) if compared else None,
                bytes=sizes.get(name, 0),
                flops=flops,
                failure=failures.get(name, ""),
            )

    def _drawn(self, shape: Mapping[str, Any]) -> dict[str, Any]:
        # `inputs` usually draws random numbers with a generator of the CPU, which cannot fill
        # tensors on a GPU.
        with torch.device("cpu"):
            arguments = self._inputs(**shape)
        if not isinstance(arguments, Mapping):
            raise UsageError("it must return a mapping of keyword arguments")
        return on_gpu(arguments) if self._on_gpu else dict(arguments)

    def _flops(self, arguments: dict[str, Any]) -> int:
        """Return the operations of the baseline as counted by torch; 0 if torch's counter fails."""
        from torch.utils.flop_counter import FlopCounterMode

        with suppress(Exception):
            task = self._task(self.baseline, arguments)
            if self.which == "backward":
                task.call()  # runs the forward pass, whose operations are not counted
            counter = FlopCounterMode(display=False)
            with counter:
                task.call()
            return int(counter.get_total_flops())
        return 0

    def _timed(
        self, arguments_by_name: Mapping[str, dict[str, Any]]
    ) -> dict[str, Duration | Exception]:
        calls = {name: self._task(name, own).call for name, own in arguments_by_name.items()}
        if not self._on_gpu:
            return time_alternately(calls, self._repeat_s)
        outcomes: dict[str, Duration | Exception] = {}
        for name, call in calls.items():
            try:
                outcomes[name] = time_on_gpu(call, self._repeat_s)
            except Exception as error:  # noqa: BLE001 - the implementation's
                outcomes[name] = error
        return outcomes

    def _task(self, name: str, arguments: dict[str, Any]) -> Task:
        return Task(self._implementations[name], copied(arguments), self.which)

    def _wait(self) -> None:
        if self._on_gpu:
            torch.cuda.synchronize()


def speedup_within(reference: Duration | None, time: Duration | None) -> tuple[float, float] | None:
    """Return the interval of a speed-up; None if a time is missing or has too few samples."""
    if reference is None or time is None or min(*reference.samples, *time.samples, 1.0) <= 0:
        return None
    change = difference([time.samples], [reference.samples], 0.0)
    return None if change.low is None or change.high is None else (change.low, change.high)


def shown_value(value: Any) -> Any:
    """Return a parameter value for reports: numbers and strings unchanged, types by name."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return str(value).removeprefix("torch.")


def _line(error: Exception) -> str:
    text = shortened(str(error).strip().split("\n", maxsplit=1)[0], width=_LONGEST)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
