"""Metrics of Proton's files by name, and the times, rates and shares that are derived from them.

The names are those of Proton's own viewer: `time/ms`, `avg_time/us`, `tflop16/s`, `gbyte/s`,
`util`, `time/%`. The value of a metric is None at nodes that do not have it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial

from ttools.core.errors import UsageError
from ttools.core.gpus.devices import DEVICES, Device
from ttools.profiler.view.file import Frame, Number, ProtonProfile

Evaluate = Callable[[Frame, ProtonProfile], "Number | None"]

_TIMES = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
_PREFIXES = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9, "t": 1e12}
_TIME = re.compile(r"(avg_)?((?:cpu_)?time)/(s|ms|us|ns)")
_RATE = re.compile(r"([kmgt]?)(flop|byte)(8|16|32|64)?/s")
#: The peak rate that is assumed for operations of each width, because their unit is unknown.
_PEAKS = {"8": "dot fp8", "16": "dot fp16", "32": "fp32", "64": "fp64"}


@dataclass(frozen=True)
class Column:
    """A metric to show.

    Attributes:
        name: Name of the metric, as the user wrote it.
        of: Function that returns the value at a node; None if the node has no value.
    """

    name: str
    of: Evaluate


def columns(names: list[str], profiles: list[ProtonProfile]) -> list[Column]:
    """Return the metrics to show.

    Args:
        names: Names of metrics. If empty, a selection of the profile's metrics is shown, or a
            single metric if there are several profiles.
        profiles: The profiles that are shown.

    Raises:
        UsageError: A metric is in none of the profiles.
    """
    present = list(dict.fromkeys(metric for profile in profiles for metric in profile.metrics))
    usual = _usual(present) if len(profiles) == 1 else _usual(present)[:1]
    return [_column(name, present) for name in names or usual]


def available(profile: ProtonProfile) -> tuple[list[str], list[str]]:
    """Return the names of a profile's metrics, and of the metrics derived from them."""
    present = profile.metrics
    derived: list[str] = []
    for name in ("time", "cpu_time"):
        if name in present:
            derived += [f"{name}/{unit}" for unit in _TIMES]
            derived += [f"avg_{name}/{unit}" for unit in _TIMES] if "count" in present else []
    if "time" in present:
        for metric in present:
            if match := re.fullmatch(r"(flop|byte)s(8|16|32|64)?", metric):
                stem = f"{match[1]}{match[2] or ''}/s"
                derived += [prefix + stem for prefix in ("", "g", "t")]
        derived += ["util"] if any(m == "bytes" or m.startswith("flops") for m in present) else []
    return present, derived + [f"{name}/%" for name in present]


def _usual(present: list[str]) -> list[str]:
    names = ["time/ms", "time/%"] if "time" in present else []
    names += ["count"] if "count" in present else []
    widths = [m.removeprefix("flops") for m in present if re.fullmatch(r"flops(8|16|32|64)?", m)]
    if "time" in present:
        names += [f"tflop{width}/s" for width in widths]
        names += ["gbyte/s"] if "bytes" in present else []
    return names or present[:4]


def _column(name: str, present: list[str]) -> Column:
    word = name.strip().lower()
    lower = {metric.lower(): metric for metric in present}
    if match := _TIME.fullmatch(word):
        _require(name, [match[2], *(["count"] if match[1] else [])], present)
        return Column(name, partial(_time, match[2], _TIMES[match[3]], bool(match[1])))
    if match := _RATE.fullmatch(word):
        metric = f"{match[2]}s{match[3] or ''}"
        _require(name, [metric, "time"], present)
        return Column(name, partial(_rate, metric, _PREFIXES[match[1]]))
    if word == "util":
        _require(name, ["time"], present)
        return Column(name, _utilisation)
    if word.endswith("/%"):
        metric = lower.get(word.removesuffix("/%"), name.removesuffix("/%"))
        _require(name, [metric], present)
        return Column(name, partial(_share, metric))
    _require(name, [lower.get(word, name)], present)
    return Column(name, lambda frame, _: frame.total(lower[word]))


def _require(name: str, needed: list[str], present: list[str]) -> None:
    for metric in needed:
        if metric not in present:
            close = get_close_matches(metric, present) or present
            raise UsageError(
                f"the metric `{name}` needs `{metric}`, which no file has; --list shows the "
                f"metrics of a file{': ' + ', '.join(close) if close else ''}"
            )


def _scalar(value: Number | None) -> float | None:
    return None if isinstance(value, tuple) else value


def _time(metric: str, unit: float, average: bool, frame: Frame, _: ProtonProfile) -> float | None:
    seconds = _scalar(frame.total(metric))
    count = _scalar(frame.total("count")) if average else 1.0
    return None if seconds is None or not count else seconds / count * unit


def _rate(metric: str, factor: float, frame: Frame, _: ProtonProfile) -> float | None:
    amount, seconds = _scalar(frame.total(metric)), _scalar(frame.total("time"))
    return None if amount is None or not seconds else amount / seconds / factor


def _share(metric: str, frame: Frame, profile: ProtonProfile) -> float | None:
    whole, part = _scalar(profile.root.total(metric)), _scalar(frame.total(metric))
    if whole is None and part is not None:
        whole = sum(_scalar(node.own.get(metric)) or 0.0 for _, node in profile.root.walk())
    return None if not whole or part is None else 100 * part / whole


def _utilisation(frame: Frame, profile: ProtonProfile) -> float | None:
    """Return the ratio of the lower bound of a kernel's time on its device to its measured time."""
    device = device_of(frame, profile)
    seconds = _scalar(frame.own.get("time"))
    if device is None or not seconds:
        return None
    parts = []
    if (moved := _scalar(frame.own.get("bytes"))) is not None:
        parts.append(moved / device.bandwidth)
    for width, unit in _PEAKS.items():
        amount, peak = _scalar(frame.own.get(f"flops{width}")), device.peak(unit)
        if amount is not None and peak:
            parts.append(amount / peak)
    return max(parts) / seconds if parts else None


def device_of(frame: Frame, profile: ProtonProfile) -> Device | None:
    """Return the device of a kernel's architecture whose bandwidth is nearest to the file's."""
    facts = profile.devices.get(frame.device) if frame.device else None
    if not facts:
        return None
    arch = str(facts.get("arch", ""))
    arch = f"sm_{arch}" if arch.isdigit() else arch.split(":")[0]
    alike = [device for device in DEVICES.values() if device.architecture == arch]
    try:
        bits, kilohertz = float(facts["bus_width"]), float(facts["memory_clock_rate"])
    except (KeyError, TypeError, ValueError):
        return alike[0] if alike else None
    speed = 2 * kilohertz * 1e3 * bits / 8
    return min(alike, key=lambda device: abs(device.bandwidth - speed), default=None)
