"""Pictures of the accesses of real launches agree with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from pictured_kernels import histogram, scale, transposed_copy

from ttools.core.errors import UsageError
from ttools.watch import watch
from ttools.watch.api import WatchedRun
from ttools.watch.picture.accesses import MOST_OF_A_KERNEL
from ttools.watch.picture.page_data import page_data


def launches_of(run: WatchedRun) -> list[dict[str, Any]]:
    picture = run.picture()
    launches: list[dict[str, Any]] = page_data(picture._recording, picture._accesses, 4000)[
        "launches"
    ]
    return launches


def map_of(launch: dict[str, Any], name: str) -> dict[str, Any]:
    return next(drawn for drawn in launch["maps"] if drawn["name"] == name)


def cells(drawn: dict[str, Any], kind: str, what: str) -> np.ndarray:
    return np.array(drawn["kinds"][kind][what]).reshape(
        len(drawn["slices"]), drawn["row_cells"], drawn["column_cells"]
    )


@pytest.mark.parametrize("threads", [1, 2])
def test_a_vector_with_a_tail(threads: int) -> None:
    x, out = torch.arange(60.0), torch.zeros(64)
    with watch(picture=True, threads=threads) as run:
        scale[(4,)](out, x, 50, 2, BLOCK=16)
    assert torch.equal(out[:50], x[:50] * 4 + 1)
    (launch,) = launches_of(run)
    loaded = map_of(launch, "x_ptr")
    assert (loaded["shape"], loaded["length"], loaded["rows"]) == ([60], 60, 1)
    program = np.arange(60) // 16
    touched = np.arange(60) < 50
    expected = np.where(touched, program, -1)
    np.testing.assert_array_equal(cells(loaded, "load", "low")[0, 0], expected)
    np.testing.assert_array_equal(cells(loaded, "load", "high")[0, 0], expected)
    np.testing.assert_array_equal(cells(loaded, "load", "elements")[0, 0], touched)
    assert "store" not in loaded["kinds"]
    stored = map_of(launch, "out_ptr")
    assert sum(stored["kinds"]["store"]["elements"]) == 50
    assert loaded["own"]["3"]["load"] == [48, 2]
    assert launch["notes"] == []


def test_a_transposed_view_and_slices_of_four_dimensions() -> None:
    base = torch.arange(35.0).reshape(7, 5)
    out = torch.zeros(2, 1, 5, 7)
    with watch(picture=True) as run:
        transposed_copy[(2, 2)](out[1], base.t(), 5, 7, 1, 5, BLOCK_M=4, BLOCK_N=4)
        transposed_copy[(2, 2)](out, base.t(), 5, 7, 1, 5, BLOCK_M=4, BLOCK_N=4)
    assert torch.equal(out[1, 0], base.t())
    first, second = launches_of(run)
    row, column = np.indices((5, 7))
    program = column // 4 + 2 * (row // 4)
    np.testing.assert_array_equal(cells(map_of(first, "x_ptr"), "load", "low")[0], program)
    np.testing.assert_array_equal(cells(map_of(first, "out_ptr"), "store", "low")[0], program)
    stored = map_of(second, "out_ptr")
    assert (stored["shape"], stored["slices"]) == ([2, 1, 5, 7], [0, 1])
    low = cells(stored, "store", "low")
    np.testing.assert_array_equal(low[0], program)
    assert (low[1] == -1).all()


def test_duplicates_and_atomics() -> None:
    index = torch.tensor([3, 3, 5, 3, 0, 5], dtype=torch.int32)
    counts = torch.zeros(8, dtype=torch.int32)
    with watch(picture=True) as run:
        histogram[(2,)](counts, index, 6, BLOCK=4)
    assert counts.tolist() == [1, 0, 0, 3, 0, 2, 0, 0]
    drawn = map_of(launches_of(run)[0], "counts_ptr")
    assert drawn["kinds"]["atomic"]["elements"] == counts.tolist()
    assert drawn["kinds"]["atomic"]["low"] == [1, -1, -1, 0, -1, 0, -1, -1]
    assert drawn["kinds"]["atomic"]["high"] == [1, -1, -1, 0, -1, 1, -1, -1]


def test_accesses_out_of_bounds_are_reported() -> None:
    x = torch.arange(40.0)
    with watch(picture=True) as run:
        scale[(4,)](torch.zeros(64), x[:30], 64, 1, BLOCK=16)
    notes = launches_of(run)[0]["notes"]
    assert any("24 lanes of this load from x_ptr are outside its storage" in note for note in notes)
    assert any(
        "10 lanes of this load from x_ptr are outside the tensor's elements" in n for n in notes
    )


def test_two_arguments_of_one_tensor_are_distinguished() -> None:
    x = torch.arange(32.0)
    with watch(picture=True) as run:
        scale[(2,)](x, x, 32, 1, BLOCK=16)
    (launch,) = launches_of(run)
    assert set(map_of(launch, "x_ptr")["kinds"]) == {"load"}
    assert set(map_of(launch, "out_ptr")["kinds"]) == {"store"}


def test_omitted_elements_are_counted() -> None:
    out = torch.zeros(64)
    with watch(picture=True) as run:
        for _ in range(MOST_OF_A_KERNEL + 2):
            scale[(40,)](out, out, 40, 1, BLOCK=1)
    assert len(launches_of(run)) == MOST_OF_A_KERNEL
    picture = run.picture()
    data = page_data(picture._recording, picture._accesses, 60)
    assert data["left_out"] == {"scale": 2}
    for launch in data["launches"]:
        # The first and last of 40 programs, and some between.
        assert 14 <= len(launch["values"]) <= 16
        assert sum(map(len, launch["values"].values())) <= 20
        assert any("left out of the page" in note for note in launch["notes"])


def test_pictures_with_a_watch_record_all_launches() -> None:
    out = torch.zeros(64)
    with watch(["pid"], picture=True) as run:
        for _ in range(MOST_OF_A_KERNEL + 1):
            scale[(2,)](out, out, 40, 1, BLOCK=32)
    assert len(run.recording.launches) == MOST_OF_A_KERNEL + 1
    assert len(launches_of(run)) == MOST_OF_A_KERNEL


def test_usage_errors() -> None:
    with watch(picture=True) as run:
        pass
    with pytest.raises(UsageError, match="nothing to draw"):
        run.picture().html()
    with pytest.raises(UsageError, match="there is no picture"):
        watch(["x"]).picture()
