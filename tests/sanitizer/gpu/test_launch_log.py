"""The log of launches can be read back, even if the program was killed while writing it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from ttools.core.triton_versions import CompiledKernelFacts
from ttools.sanitizer.gpu.launch_log import LOG, REPORT, LogWriter, read_log


class Pair(NamedTuple):
    left: torch.Tensor
    right: int


def facts(*parameters: str) -> CompiledKernelFacts:
    return CompiledKernelFacts(
        name="add", function="add_0", parameters=parameters, ctas=2, ttir="module {}"
    )


def test_arguments(tmp_path: Path) -> None:
    storage = torch.zeros(100)
    view, pair = storage[20:80:3], Pair(torch.ones(2, 3, dtype=torch.int64), 7)
    writer = LogWriter(tmp_path)
    arguments = (view, pair, 5, float("inf"), None, object())
    parameters = ("x", "pair", "n", "scale", "none", "thing")
    writer.launch(facts(*parameters), (4,), arguments, line="a.py:3", config={"BLOCK": 64})
    (launch,) = read_log(tmp_path).launches
    spec = launch.spec
    assert (spec.kernel, launch.function, spec.grid) == ("add", "add_0", (4, 1, 1))
    assert spec.options.blocks == 2
    assert (spec.site.line, spec.site.config) == ("a.py:3", {"BLOCK": 64})
    assert (tmp_path / (launch.source or "")).read_text() == "module {}"
    logged = {argument.name: argument for argument in spec.arguments}
    assert list(logged) == ["x", "pair.left", "pair.right", "n", "scale", "none", "thing"]
    x = logged["x"].tensor
    assert x is not None
    assert x.extent == (storage.data_ptr(), storage.data_ptr() + 400)
    assert (x.shape, x.strides) == ((20,), (3,))
    assert (x.element_offset, x.storage_bytes) == (20, 400)
    assert logged["pair.left"].dtype == "int64"
    assert [logged[name].value for name in ("pair.right", "n")] == [7, 5]
    assert logged["scale"].dtype == "float"
    assert logged["none"].tensor is logged["thing"].tensor is None


def test_positions_are_lengths_of_the_report(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    first = writer.launch(facts(), (1,), ())
    (tmp_path / REPORT).write_text("12345")
    writer.finished(first)
    writer.launch(facts(), (1,), ())
    writer.ended(3)
    log = read_log(tmp_path)
    assert [(launch.begin, launch.end) for launch in log.launches] == [(0, 5), (5, None)]
    assert (log.status, log.failures, log.refusal) == (3, [], None)


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.6, 0.9])
def test_log_that_is_cut_off(kept: float, tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    for _ in range(3):
        writer.launch(facts("n"), (1,), (5,))
    text = (tmp_path / LOG).read_text()
    (tmp_path / LOG).write_text(text[: int(kept * len(text))])
    assert len(read_log(tmp_path).launches) == int(kept * 3)


def test_failures_are_reported_once(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path)
    for text in ("a", "b", "a"):
        writer.failed(text)
    writer.refused("no such file", misuse=True)
    log = read_log(tmp_path)
    assert (log.failures, log.refusal, log.misuse, log.status) == (
        ["a", "b"],
        "no such file",
        True,
        None,
    )


def test_nothing_was_written(tmp_path: Path) -> None:
    assert read_log(tmp_path).launches == []
