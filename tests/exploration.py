"""Property tests on new examples: Hypothesis profiles, and the pytest plugin of `make explore`.

Every ordinary run of the tests tries the same examples. `python -m tools.explore` loads this module
as a plugin and selects the profile `explore`, under which each seed makes other examples.
"""

from __future__ import annotations

import random
import shlex
import sys
import time
from typing import Any

import hypothesis
import pytest

#: The profile whose examples depend on `--hypothesis-seed`.
PROFILE = "explore"
#: Exit status of pytest when no test was selected.
NO_TESTS = 5

# How fast examples are made depends on what else the machine does.
_SETTINGS: dict[str, Any] = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [hypothesis.HealthCheck.too_slow],
}


def register_profiles() -> None:
    """Registers both profiles and loads the one that tries the same examples in each run."""
    hypothesis.settings.register_profile("ttools", **_SETTINGS, derandomize=True)
    # In continuous integration Hypothesis takes the same examples unless it is told otherwise.
    hypothesis.settings.register_profile(PROFILE, **_SETTINGS, derandomize=False)
    hypothesis.settings.load_profile("ttools")


def reproduction(test: str, seed: object) -> str:
    """Return the command that runs one test with the examples of a seed."""
    options = ["-n", "0", "--hypothesis-profile", PROFILE, "--hypothesis-seed", str(seed)]
    return shlex.join([sys.executable, "-m", "pytest", *options, test])


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that limits the time."""
    parser.addoption(
        "--explore-until",
        type=float,
        default=None,
        help="start no further test after this time, in seconds since the epoch",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffles the tests by the seed, since there may not be time for all of them."""
    random.Random(str(config.getoption("--hypothesis-seed"))).shuffle(items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips what there is no time left for."""
    until = item.config.getoption("--explore-until")
    if until is not None and time.time() > until:
        pytest.skip("there is no time left")


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Prints the command that reproduces each failure."""
    failed = terminalreporter.stats.get("failed", []) + terminalreporter.stats.get("error", [])
    if failed:
        terminalreporter.section("to reproduce")
    seed = config.getoption("--hypothesis-seed")
    for test in dict.fromkeys(report.nodeid for report in failed):
        terminalreporter.write_line(reproduction(test, seed))
