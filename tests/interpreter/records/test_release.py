"""Tests that a record of release 0.1 can be read, replayed and written in the same format."""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path

import numpy as np

from ttools.core.records.reading import read_record
from ttools.core.records.writing import write_record
from ttools.interpreter.records.replay import replay

#: Record of two launches of one kernel: views with strides and offsets, a null pointer, the same
#: tensor as two arguments, all kinds of scalars, an infinity, and an autotuner's configuration.
RELEASE = Path(__file__).with_name("release_0.1.tt")


def test_launches_are_replayed() -> None:
    tuned, plain = replay(RELEASE)
    x = np.arange(3, 40, 5).astype(np.float32)
    np.testing.assert_array_equal(tuned.tensors["out_ptr"], -x * np.float32(0.1))
    assert np.isposinf(plain.tensors["out_ptr"]).all()


def test_fields_of_launches() -> None:
    record = read_record(RELEASE)
    data = json.loads(_document(RELEASE))
    for launch, stored in zip(record.launches, data["launches"], strict=True):
        assert launch.spec.kernel == "shift"
        assert launch.spec.grid == (2, 1, 1)
        assert list(launch.spec.names) == [parameter["name"] for parameter in stored["parameters"]]
    tuned, plain = record.launches
    assert (tuned.spec.site.line, plain.spec.site.line) == ("shift.py:16", "shift.py:17")
    assert tuned.spec.site.config == {"BLOCK": 4, "num_warps": 4, "num_ctas": 1, "num_stages": 3}
    values = {argument.name: argument.value for argument in plain.spec.arguments}
    assert values["scale"] == math.inf
    assert values["flag"] is False
    assert values["out_ptr"] == values["bias"]
    assert tuned.specialisation["bias"] == "constant None"


def test_the_record_is_written_unchanged(tmp_path: Path) -> None:
    write_record(read_record(RELEASE), tmp_path / "again.tt")
    assert json.loads(_document(tmp_path / "again.tt")) == json.loads(_document(RELEASE))


def _document(path: Path) -> bytes:
    with zipfile.ZipFile(path) as file:
        return file.read("record.json")
