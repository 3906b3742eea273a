"""Stores in the formats of other projects are read back as they were written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ttools.core.errors import UsageError
from ttools.tuner.configs.formats import read_config_files
from ttools.tuner.configs.writing import WRITERS
from ttools.tuner.measure.trial import Trial
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import TuningEntry

GPU = "cuda: NVIDIA H100 80GB HBM3 (sm_90)"


def entry(rows: int, winner: int, device: str = GPU, **key: int) -> TuningEntry:
    key = key or {"N": 64, "K": 512, "group_n": 128, "group_k": 64}
    problem = Problem(
        kernel="matmul",
        source="1",
        key=json.dumps({"M": rows, **key, "dtypes": ["float8_e4m3fn", "float8_e4m3fn"]}),
        device=device,
        versions="triton 3.6.0, ttools 0.1.0",
    )
    trials = [
        Trial(
            values={"BLOCK": block, "num_warps": 4, "num_stages": 3, "num_ctas": 1},
            status="ok",
            samples=tuple(1e-3 * (1 + abs(block - winner) + n / 100) for n in range(9)),
        )
        for block in (1, 2, 4)
    ]
    trials.append(Trial(values={"BLOCK": 8, "num_warps": 4}, status="wrong", reason="differs"))
    best = next(trial.key for trial in trials if trial.values["BLOCK"] == winner)
    return TuningEntry(problem=problem, trials=trials, winner=best)


ENTRIES = [entry(64, 4), entry(2, 1)]


SHAPE = "N=64,K=512,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8"


@pytest.mark.parametrize(
    ("form", "name"),
    [
        ("vllm", f"{SHAPE},block_shape=[128,64].json"),
        ("sglang", f"triton_3_6_0/{SHAPE},block_shape=[128, 64].json"),
    ],
)
def test_one_file_for_each_shape(form: str, name: str, tmp_path: Path) -> None:
    ((written, text),) = WRITERS[form](ENTRIES).items()
    assert written == name
    assert ("triton_version" in text) == (form == "vllm")
    file = tmp_path / Path(written).name
    file.write_text(text)
    (read,) = read_config_files([file])
    assert not read.findings
    assert [(e.key["M"], e.values["BLOCK"]) for e in read.entries] == [(2, 1), (64, 4)]
    assert read.entries[0].values == {"BLOCK": 1, "num_warps": 4, "num_stages": 3}


def test_experts_are_part_of_the_name() -> None:
    (name,) = WRITERS["vllm"]([entry(4, 1, E=8, N=32)])
    assert name.startswith("E=8,N=32,device_name=")


def test_keys_and_devices_that_have_no_name_are_refused() -> None:
    with pytest.raises(UsageError, match="needs numbers M and N and K"):
        WRITERS["vllm"]([entry(4, 1, n=3)])
    with pytest.raises(UsageError, match="the name of the GPU"):
        WRITERS["sglang"]([entry(4, 1, "cpu: this one, 2 threads")])


def test_times_for_tritons_autotuner(tmp_path: Path) -> None:
    files = WRITERS["triton"](ENTRIES)
    assert len(files) == 2
    for name, text in files.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    read = read_config_files([tmp_path])
    chosen = {
        file.entries[0].key["key"][0]: next(e for e in file.entries if e.is_chosen) for file in read
    }
    assert {rows: e.values["BLOCK"] for rows, e in chosen.items()} == {64: 4, 2: 1}
    assert chosen[2].key["key"][-1] == "torch.float8_e4m3fn"
    data = json.loads(next(iter(files.values())))
    import triton

    for config, times in data["configs_timings"]:
        assert triton.Config(**config).kwargs == config["kwargs"]
        assert times[1] <= times[0] <= times[2]


def test_choices_for_flaggems(tmp_path: Path) -> None:
    ((name, text),) = WRITERS["flaggems"]([*ENTRIES, entry(8, 4)]).items()
    (tmp_path / name).write_text(text)
    (read,) = read_config_files([tmp_path])
    assert [(e.kernel, e.values["BLOCK"]) for e in read.entries] == [("matmul", 4), ("matmul", 1)]
