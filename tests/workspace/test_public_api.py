"""The public functions of all packages have the same shape: results, errors and parameters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ttools.interpreter import device_map, interpret
from ttools.profiler import Sweep, profile
from ttools.prove import check_sizes
from ttools.sanitizer import sanitize
from ttools.tuner import TuneOptions, TuningRun, tune
from ttools.verifier import VerifyOptions, verify
from ttools.watch import open_trace, watch


def entered(context: Any) -> None:
    with context:
        pass


WRONG_ARGUMENTS: dict[str, Callable[[], Any]] = {
    "interpret-order": lambda: interpret(order="other"),  # type: ignore[arg-type]
    "interpret-only": lambda: interpret(only="kernel"),
    "interpret-threads": lambda: interpret(threads=0),
    "interpret-timeout": lambda: interpret(timeout=-1),
    "interpret-gpu": lambda: interpret(gpu="h1000"),
    "interpret-unknown": lambda: interpret(thread=1),  # type: ignore[call-arg]
    "device_map": lambda: entered(device_map("cuda=tpu")),
    "sanitize-checks": lambda: sanitize(checks="memchek"),
    "sanitize-only": lambda: sanitize(only="kernel"),
    "sanitize-timeout": lambda: sanitize(timeout=-1),
    "sanitize-threads": lambda: sanitize(threads=0),
    "sanitize-baseline": lambda: sanitize(baseline="no/such/file"),
    "sanitize-suppressions": lambda: sanitize(suppressions="no/such/file"),
    "sanitize-severity": lambda: sanitize().raise_for_findings("fatal"),  # type: ignore[arg-type]
    "sanitize-format": lambda: sanitize().to("pdf"),
    "watch-names": lambda: watch("acc"),
    "watch-only": lambda: watch(only="kernel"),
    "watch-limit": lambda: watch(limit=0),
    "watch-compare": lambda: watch(compare="no/such/file"),
    "open_trace": lambda: open_trace(Path("no/such/file")),
    "profile-on": lambda: profile(on="tpu"),  # type: ignore[arg-type]
    "profile-only": lambda: profile(only="kernel"),
    "profile-gpu": lambda: profile(gpu="h1000"),
    "profile-threads": lambda: profile(on="cpu", threads=0),
    "profile-timeout": lambda: profile(on="cpu", timeout=-1),
    "sweep-shapes": lambda: Sweep({"one": print}, dict, []),
    "sweep-on": lambda: Sweep({"one": print}, dict, [{}], on="tpu"),  # type: ignore[arg-type]
    "check_sizes-none": lambda: check_sizes(print),
    "check_sizes-gaps": lambda: check_sizes(print, n=range(1, 10, 2)),
    "check_sizes-seconds": lambda: check_sizes(print, seconds=-1, n=range(1, 10)),
    "check_sizes-fail_on": lambda: check_sizes(print, fail_on="fatal", n=range(1, 10)),  # type: ignore[arg-type]
    "tune-on": lambda: tune([], key=[], on="tpu"),  # type: ignore[call-overload]
    "tune-configs": lambda: tune([1], key=[]),
    "tune-unknown": lambda: tune([], key=[], warm=1),  # type: ignore[call-arg]
    "tune-options-effort": lambda: TuneOptions(effort="much"),  # type: ignore[arg-type]
    "tune-options-seconds": lambda: TuneOptions(seconds=-1),
    "tuning-run-locked": lambda: TuningRun(locked=True),
    "tuning-run-on": lambda: TuningRun(on="tpu"),  # type: ignore[arg-type]
    "tuning-run-only": lambda: TuningRun(only="kernel"),
    "verify-function": lambda: verify(lambda x: x),
    "verify-file": lambda: verify("no_such_file.py"),
    "verify-cases": lambda: verify("no_such_file.py", cases=0),
    "verify-unknown": lambda: verify("no_such_file.py", case=1),
    "verify-options-seconds": lambda: VerifyOptions(seconds=-1),
}


@pytest.mark.parametrize("name", WRONG_ARGUMENTS)
def test_wrong_arguments_raise_a_value_error_or_a_type_error(name: str) -> None:
    with pytest.raises((ValueError, TypeError)) as raised:
        WRONG_ARGUMENTS[name]()
    assert str(raised.value)
