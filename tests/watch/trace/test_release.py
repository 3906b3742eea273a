"""A trace that release 0.1 wrote can be read: launches, arguments, values."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ttools.watch import open_trace

RELEASE = Path(__file__).with_name("release_0.1.trace")


def test_its_values_are_read() -> None:
    recording = open_trace(RELEASE)
    assert recording.complete
    assert [launch.grid for launch in recording.launches.values()] == [(2, 1, 1), (2, 1, 1)]
    names = [
        [argument.name for argument in launch.spec.arguments]
        for launch in recording.launches.values()
    ]
    assert names[1] == ["x_ptr", "out_ptr", "bias", "n", "scale", "stride", "flag"]
    assert names[0] == [name for name in names[1] if name != "bias"]
    stored = [record for record in recording["tl.store"] if record.launch.index == 0]
    values = np.concatenate([record.values for record in stored])
    np.testing.assert_array_equal(values, -np.arange(3, 40, 5).astype(np.float32) * np.float32(0.1))
