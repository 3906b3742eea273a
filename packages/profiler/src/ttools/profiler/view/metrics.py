"""Metrics by name: those of the file, and times, rates and shares that follow from them.

As Proton's own viewer names them: `time/ms`, `avg_time/us`, `tflop16/s`, `gbyte/s`, `util`,
`time/%`. What is unknown of a node is None, never an exception.
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
#: The peak rate for each width of operations, whose unit is unknown.
_PEAKS = {"8": "dot fp8", "16": "dot fp16", "32": "fp32", "64": "fp64"}


@dataclass(frozen=True)
class Column:
    """A metric to show.

    Attributes:
        name: Name as requested.
        of: Returns its value at a node.
    """

    name: str
    of: Evaluate


def columns(names: list[str], profiles: list[ProtonProfile]) -> list[Column]:
    """Return the metrics of these names; by default those of the profile, of several the first.

    Raises:
        UsageError: None of the profiles has one of them.
    """
    known = list(dict.fromkeys(metric for each in profiles for metric in each.metrics))
    usual = _usual(known) if len(profiles) == 1 else _usual(known)[:1]
    return [_column(name, known) for name in names or usual]


def available(profile: ProtonProfile) -> tuple[list[str], list[str]]:
    """Return the names of a profile's metrics, and of those derived from them."""
    known = profile.metrics
    derived: list[str] = []
    for name in ("time", "cpu_time"):
        if name in known:
            derived += [f"{name}/{unit}" for unit in _TIMES]
            derived += [f"avg_{name}/{unit}" for unit in _TIMES] if "count" in known else []
    if "time" in known:
        for metric in known:
            if found := re.fullmatch(r"(flop|byte)s(8|16|32|64)?", metric):
                stem = f"{found[1]}{found[2] or ''}/s"
                derived += [prefix + stem for prefix in ("", "g", "t")]
        derived += ["util"] if any(m == "bytes" or m.startswith("flops") for m in known) else []
    return known, derived + [f"{name}/%" for name in known]


def _usual(known: list[str]) -> list[str]:
    found = ["time/ms", "time/%"] if "time" in known else []
    found += ["count"] if "count" in known else []
    widths = [m.removeprefix("flops") for m in known if re.fullmatch(r"flops(8|16|32|64)?", m)]
    if "time" in known:
        found += [f"tflop{width}/s" for width in widths]
        found += ["gbyte/s"] if "bytes" in known else []
    return found or known[:4]


def _column(name: str, known: list[str]) -> Column:
    word = name.strip().lower()
    lower = {metric.lower(): metric for metric in known}
    if found := _TIME.fullmatch(word):
        _require(name, [found[2], *(["count"] if found[1] else [])], known)
        return Column(name, partial(_time, found[2], _TIMES[found[3]], bool(found[1])))
    if found := _RATE.fullmatch(word):
        metric = f"{found[2]}s{found[3] or ''}"
        _require(name, [metric, "time"], known)
        return Column(name, partial(_rate, metric, _PREFIXES[found[1]]))
    if word == "util":
        _require(name, ["time"], known)
        return Column(name, _utilisation)
    if word.endswith("/%"):
        metric = lower.get(word.removesuffix("/%"), name.removesuffix("/%"))
        _require(name, [metric], known)
        return Column(name, partial(_share, metric))
    _require(name, [lower.get(word, name)], known)
    return Column(name, lambda frame, _: frame.total(lower[word]))


def _require(name: str, needed: list[str], known: list[str]) -> None:
    for metric in needed:
        if metric not in known:
            close = get_close_matches(metric, known) or known
            raise UsageError(
                f"the metric `{name}` needs `{metric}`, which no file has; --list shows what there "
                f"is{': ' + ', '.join(close) if close else ''}"
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
        whole = sum(_scalar(each.own.get(metric)) or 0.0 for _, each in profile.root.walk())
    return None if not whole or part is None else 100 * part / whole


def _utilisation(frame: Frame, profile: ProtonProfile) -> float | None:
    """Return the least time of a kernel on its device, as a share of its time."""
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
    """Return the device of a kernel: of its architecture, the one with the nearest bandwidth."""
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
    return min(alike, key=lambda each: abs(each.bandwidth - speed), default=None)
