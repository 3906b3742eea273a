"""Readers of configuration files, with files as the libraries write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ttools.core.errors import UsageError
from ttools.tuner.configs.formats import named_key, read_config_files
from ttools.tuner.measure.trial import Trial
from ttools.tuner.store.lock import lock_of, write_lock
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import TuningEntry, TuningStore

NAMED = "E=8,N=512,device_name=NVIDIA_H100_80GB_HBM3.json"


def config(block: int, **more: Any) -> dict[str, Any]:
    return {"BLOCK_SIZE_M": block, "GROUP_SIZE_M": 1, "num_warps": 4, "num_stages": 3, **more}


def kinds(file: Path) -> list[tuple[str, int]]:
    (read,) = read_config_files([file])
    return [(found.kind, found.location.line) for found in read.findings]


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_names_of_files_are_keys() -> None:
    name = "N=64,K=512,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 64].json"
    shape = {"N": 64, "K": 512, "dtype": "fp8_w8a8", "block_shape": [128, 64]}
    assert named_key(name) == (shape, "NVIDIA H200", True)
    assert named_key(name.replace(", 64", ",64"))[2] is False
    down = "E=2,N=64,device_name=NVIDIA_L20,dtype=fp8_w8a8_down.json"
    assert named_key(down)[0] == {"E": 2, "N": 64, "dtype": "fp8_w8a8", "down": True}
    channels = "E=2,N=64,device_name=NVIDIA_L20,dtype=int8_w8a8,per_channel_quant=True.json"
    assert named_key(channels)[0]["per_channel_quant"] == "True"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("E=8,N=512.json", "no device_name"),
        ("E=8,device_name=NVIDIA_L20.json", "must begin with"),
        ("E=8,N=x,device_name=NVIDIA_L20.json", "is not a number"),
        ("E=8,N=4,device_name=NVIDIA_L20,block_shape=[1].json", "is not \\[ROWS,COLUMNS\\]"),
        ("E=8,N=4,device_name=NVIDIA_L20,fp8.json", "is not NAME=VALUE"),
    ],
)
def test_malformed_names_say_what_is_wrong(name: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        named_key(name)


def test_entries_of_a_named_file(tmp_path: Path) -> None:
    data: dict[str, Any] = {"triton_version": "3.6.0", "1": config(16)}
    data["64"] = config(64, num_warps=8)
    file = written(tmp_path / NAMED, json.dumps(data, indent=4))
    (read,) = read_config_files([tmp_path])
    assert (read.path, read.form, read.findings) == (file, "named", [])
    first, second = read.entries
    assert first.key == {"E": 8, "N": 512, "M": 1}
    assert (first.device, first.name, first.line) == ("NVIDIA H100 80GB HBM3", "M=1", 3)
    assert second.values == config(64, num_warps=8)
    assert second.parameters == {"BLOCK_SIZE_M": 64, "GROUP_SIZE_M": 1}


def test_wrong_entries_of_a_named_file(tmp_path: Path) -> None:
    rows = [
        ('"x"', config(16)),
        ('"2"', [1]),
        ('"4"', config(16, num_warps=3)),
        ('"8"', config(16, num_warps=64)),
        ('"16"', config(16, num_stages="3")),
        ('"32"', {"BLOCK": [1]}),
        ('"64"', config(16)),
    ]
    lines = ",\n".join(f"{name}: {json.dumps(values)}" for name, values in rows)
    file = written(tmp_path / NAMED, f"{{\n{lines}\n}}\n")
    assert kinds(file) == [
        ("config_unreadable", 2),
        ("config_unreadable", 3),
        ("config_failed", 4),
        ("config_over_limit", 5),
        ("config_failed", 6),
        ("config_unreadable", 7),
    ]
    (read,) = read_config_files([file])
    assert [entry.name for entry in read.entries] == ["M=64"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"1": {"a": 1},}', "[" * 400])
def test_broken_files_are_findings(text: str, tmp_path: Path) -> None:
    for name in (NAMED, "k.autotune.json"):
        file = written(tmp_path / name, text)
        (read,) = read_config_files([file])
        assert not read.entries
        assert [found.kind for found in read.findings] == ["config_unreadable"]


@pytest.mark.parametrize("text", ["", "{", "[]", "a: b: c", "[" * 1000, "\t- x"])
def test_broken_yaml_is_a_finding(text: str, tmp_path: Path) -> None:
    (read,) = read_config_files([written(tmp_path / "tune_configs.yaml", text)])
    assert not read.entries
    assert [found.kind for found in read.findings] == ["config_unreadable"]


def test_text_that_is_not_utf_8(tmp_path: Path) -> None:
    file = tmp_path / NAMED
    file.write_bytes(b'{"1": "\xff"}')
    (read,) = read_config_files([file])
    assert "not UTF-8" in read.findings[0].message


def test_results_of_tritons_autotuner(tmp_path: Path) -> None:
    times = {
        64: [0.010, 0.0095, 0.0105],
        128: [0.0101, 0.0099, 0.0104],
        256: [0.02, 0.02, 0.02],
        512: [float("inf")] * 3,
    }
    launch: dict[str, Any] = {"num_warps": 4, "num_ctas": 1, "maxnreg": None, "pre_hook": None}
    rows: list[Any] = [[launch | {"kwargs": {"BLOCK": b}}, own] for b, own in times.items()]
    data = {"key": [1000, "torch.float32"], "configs_timings": rows}
    file = written(tmp_path / "add_kernel.autotune.json", json.dumps(data))
    (read,) = read_config_files([file])
    assert not read.is_choice
    assert not read.findings
    assert [(e.is_chosen, e.is_tied, bool(e.failure)) for e in read.entries] == [
        (True, False, False),
        (False, True, False),
        (False, False, False),
        (False, False, True),
    ]
    assert {entry.kernel for entry in read.entries} == {"add_kernel"}
    assert read.entries[0].key == {"key": [1000, "torch.float32"]}
    rows = [[config, [float("inf")] * 3] for config, _ in rows]
    file.write_text(json.dumps({"key": [], "configs_timings": rows}))
    assert kinds(file) == [("config_failed", 0)]


FLAGGEMS = """\
mm:
  - META:
      BLOCK_M: 64
    num_stages: 3
    num_warps: 8
softmax:
  - gen: true
    param_map:
      META:
        TILE: tile
        ROWS: 2
      num_warps: warps
    tile:
      - 32
      - 64
    warps: [4, 8]
attention:
- gen: true
  param_map:
    META: metas
    num_stages: 4
  metas:
  - {BLOCK_M: 16}
"""


def test_choices_of_flaggems(tmp_path: Path) -> None:
    file = written(tmp_path / "tune_configs.yaml", FLAGGEMS)
    (read,) = read_config_files([file])
    assert not read.findings
    names = [(entry.name, entry.line) for entry in read.entries]
    assert names == [("mm[0]", 2), *((f"softmax[{n}]", 7) for n in range(4)), ("attention[0]", 18)]
    mm, softmax, attention = read.entries[0], read.entries[1], read.entries[-1]
    assert mm.values == {"BLOCK_M": 64, "num_stages": 3, "num_warps": 8}
    assert softmax.values == {"TILE": 32, "ROWS": 2, "num_warps": 4, "num_stages": 2}
    assert attention.values == {"BLOCK_M": 16, "num_warps": 4, "num_stages": 4}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("mm: [3]", "config_unreadable"),
        ("mm: {a: 1}", "config_unsupported"),
        ("mm: [{strategy: log}]", "config_unsupported"),
        ("mm: [{META: {A: 1}, strategy: [log]}]", "config_unsupported"),
        ("mm: [{gen: true}]", "config_unreadable"),
        ("mm: [{gen: true, param_map: {META: {A: a}}}]", "config_unreadable"),
        ("mm: [{gen: true, param_map: {META: {A: a}}, a: 4}]", "config_unreadable"),
        ("mm: [{gen: true, param_map: {META: a}, a: [4]}]", "config_unreadable"),
        ("mm: [{META: {A: 1}, num_warps: 5}]", "config_failed"),
        ("mm: [!!python/object:os.system {}]", "config_unreadable"),
        ("mm: []\nmm: [{META: {A: 1}}]", "config_duplicate"),
    ],
)
def test_wrong_items_of_flaggems(text: str, kind: str, tmp_path: Path) -> None:
    file = written(tmp_path / "tune_configs.yaml", text)
    (read,) = read_config_files([file])
    assert [found.kind for found in read.findings] == [kind]


def test_lock_files_and_stores(tmp_path: Path) -> None:
    problem = Problem(
        kernel="k", source="1", key='{"n": 5, "dtypes": []}', device="d", versions="v"
    )
    trials = [
        Trial(values={"BLOCK": 1}, status="ok", samples=(1.0,) * 9),
        Trial(values={"BLOCK": 2}, status="wrong", reason="differs"),
    ]
    store = TuningStore(tmp_path / "store.sqlite")
    for trial in trials:
        store.add(problem, trial, ("k.py", 3))
    store.decide(problem, trials[0].key, {}, True, ("k.py", 3))
    store.close()
    entry = TuningEntry(problem=problem, trials=trials, winner=trials[0].key)
    write_lock(lock_of([entry]), tmp_path / "ttools.lock")
    (tmp_path / "other.json").write_text("{}")
    read = {file.form: file for file in read_config_files([tmp_path])}
    assert set(read) == {"lock", "store"}
    (winner,) = read["lock"].entries
    assert (winner.kernel, winner.values, winner.source) == ("k", {"BLOCK": 1}, "1")
    assert winner.line > 1
    own = [(e.values["BLOCK"], e.is_chosen, e.failure) for e in read["store"].entries]
    assert own == [(1, True, ""), (2, False, "differs")]


def test_paths_without_configurations_are_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    for path, words in (
        (tmp_path / "none", "no file or folder"),
        (tmp_path / "other.json", "is not a configuration file"),
        (tmp_path, "contains no configuration file"),
    ):
        with pytest.raises(UsageError, match=words):
            read_config_files([path])
