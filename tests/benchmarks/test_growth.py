"""How the time of the checks grows: the shapes launch what they say, and growth is computed."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ttools.sanitizer import sanitize

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
#: What racecheck finds in a shape; nothing in the others.
RACES = {
    "slots_beside_a_race": {"overlapping_store"},
    "slots_read_unordered": {"race", "intra_program_race"},
    "race_beside_counters": {"overlapping_store"},
    "scattered_collisions": {"overlapping_store"},
}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark's modules by name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return import_module


def test_each_shape_races_only_where_it_says(bench: Any) -> None:
    shapes = bench("workloads.growing_launches").SHAPES
    assert shapes.keys() > RACES.keys()
    for name, shape in shapes.items():
        launch = shape(512)
        with sanitize(checks="memcheck,racecheck") as report:
            launch()
        assert {finding.kind for finding in report.findings} == RACES.get(name, set()), name


@pytest.mark.parametrize("power", [0, 1, 2])
def test_growth_is_the_exponent(bench: Any, power: int) -> None:
    sizes = [1000, 2000, 5000]
    seconds = [3 * size**power for size in sizes]
    assert bench("growth").exponent(sizes, seconds) == pytest.approx(power)


def test_the_command_prints_a_row_for_each_shape_and_refuses_others() -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(BENCHMARKS / "growth.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    done = run("scattered_collisions", "--sizes", "256,512")
    assert done.returncode == 0, done.stderr
    (row,) = (line for line in done.stdout.splitlines() if line.startswith("scattered_collisions"))
    assert row.endswith("; overlapping_store")
    assert "stopped" not in row
    done = run("nothing")
    assert done.returncode == 2
    assert "no shape 'nothing'" in done.stderr
