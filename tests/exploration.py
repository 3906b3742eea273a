"""Hypothesis profiles, and the pytest plugin of `make explore`, which tries new examples.

Ordinary runs of the tests always try the same examples. `python -m tools.explore` loads this module
as a plugin and selects the profile `explore`, under which each seed generates different examples.
"""

from __future__ import annotations

import random
import shlex
import sys
import time
from typing import Any

import hypothesis
import pytest

#: Name of the profile whose examples depend on `--hypothesis-seed`.
PROFILE = "explore"
#: Exit status of pytest when no test was selected.
NO_TESTS = 5

# Generating examples can be slow if the machine is busy, so there are no time limits.
_SETTINGS: dict[str, Any] = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [hypothesis.HealthCheck.too_slow],
}


def register_profiles() -> None:
    """Register both profiles and load the one that tries the same examples in each run."""
    hypothesis.settings.register_profile("ttools", **_SETTINGS, derandomize=True)
    # `derandomize` is set explicitly because Hypothesis enables it in continuous integration.
    hypothesis.settings.register_profile(PROFILE, **_SETTINGS, derandomize=False)
    hypothesis.settings.load_profile("ttools")


def reproduction(test: str, seed: object) -> str:
    """Return the command that runs one test with the examples of a seed."""
    options = ["-n", "0", "--hypothesis-profile", PROFILE, "--hypothesis-seed", str(seed)]
    return shlex.join([sys.executable, "-m", "pytest", *options, test])


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--explore-until`, which limits the time."""
    parser.addoption(
        "--explore-until",
        type=float,
        default=None,
        help="start no further test after this time, in seconds since the epoch",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffle the tests by the seed, because the time may not suffice for all of them."""
    random.Random(str(config.getoption("--hypothesis-seed"))).shuffle(items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip all further tests once the time is over."""
    until = item.config.getoption("--explore-until")
    if until is not None and time.time() > until:
        pytest.skip("the time of --explore-until is over")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the command that reproduces each failure."""
    failed = terminalreporter.stats.get("failed", []) + terminalreporter.stats.get("error", [])
    if failed:
        terminalreporter.section("to reproduce")
    seed = config.getoption("--hypothesis-seed")
    for test in dict.fromkeys(report.nodeid for report in failed):
        terminalreporter.write_line(reproduction(test, seed))
