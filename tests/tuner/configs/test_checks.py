"""Duplicates, names, ties and unused entries of configuration files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ttools.core.gpus.devices import read_gpu
from ttools.tuner.configs.checks import AutotunedCall, AutotunedCalls, check_files, gpus_of, unused
from ttools.tuner.configs.formats import read_config_files

QUANTISED = "N=64,K={},device_name=NVIDIA_{},dtype=fp8_w8a8,block_shape={}.json"
CONFIG = {"BLOCK_SIZE_K": 64, "num_warps": 4, "num_stages": 3}
LAUNCH = AutotunedCall(
    kernel="k",
    source="1",
    key='{"n": 5, "dtypes": ["float32"]}',
    key_values=(5, "torch.float32"),
    configs=frozenset(),
    parameters=frozenset(),
    tuned=frozenset(),
    integers={},
)


def write(path: Path, data: Any) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(data, indent=4))


def messages(folder: Path) -> list[tuple[str, str]]:
    return [(found.kind, found.message) for found in check_files(read_config_files([folder]))]


def test_clean_files_have_no_findings(tmp_path: Path) -> None:
    for device in ("H100_80GB_HBM3", "H200"):
        write(tmp_path / QUANTISED.format(512, device, "[128,128]"), {"1": CONFIG, "2": CONFIG})
    assert messages(tmp_path) == []


def test_the_same_key_twice_in_a_file(tmp_path: Path) -> None:
    one, other = json.dumps(CONFIG), json.dumps({**CONFIG, "num_warps": 8})
    text = f'{{\n"1": {one},\n"2": {one},\n"2": {one},\n"2": {other}\n}}'
    (tmp_path / QUANTISED.format(512, "H200", "[128,128]")).write_text(text)
    found = check_files(read_config_files([tmp_path]))
    assert {f.kind for f in found} == {"config_duplicate"}
    assert [(f.severity, f.location.line, f.message) for f in found] == [
        ("warning", 4, "M=2: line 3 has the same key, with an equal configuration"),
        ("error", 5, "M=2: line 3 has the same key, but another configuration"),
    ]


def test_two_spellings_of_a_name(tmp_path: Path) -> None:
    for size, shape in ((512, "[128,128]"), (256, "[128,128]"), (512, "[128, 128]")):
        write(tmp_path / QUANTISED.format(size, "H200", shape), {"1": CONFIG})
    found = messages(tmp_path)
    assert [kind for kind, _ in found] == ["config_duplicate", "config_name"]
    assert "has a space in block_shape, whereas the names of the other files in this folder" in str(
        found
    )


def test_files_of_other_versions_of_triton_are_no_duplicates(tmp_path: Path) -> None:
    for version in ("triton_3_6_0", "triton_3_7_0"):
        write(tmp_path / version / QUANTISED.format(512, "H200", "[128, 128]"), {"1": CONFIG})
    assert messages(tmp_path) == []


def test_equal_choices_and_ties(tmp_path: Path) -> None:
    text = "mm:\n- META: {B: 1}\n- {META: {B: 1}, num_warps: 4}\n- {META: {B: 1}, maxnreg: 96}\n"
    (tmp_path / "tune_configs.yaml").write_text(text)
    times = {1: [0.010, 0.0095, 0.0105], 2: [0.0102, 0.0101, 0.0103], 3: [0.02, 0.02, 0.02]}
    rows = [[{"kwargs": {"B": b}, "num_warps": 4}, own] for b, own in times.items()]
    write(tmp_path / "k.autotune.json", {"key": [1], "configs_timings": rows})
    duplicate, tied = messages(tmp_path)
    text = "mm[1]: this configuration is also in line 2, so it is timed twice"
    assert duplicate == ("config_duplicate", text)
    assert tied[0] == "config_tied"
    assert tied[1].startswith("configuration 1: 1 configuration is as fast, within the noise")


def test_threads_of_the_gpu_that_a_file_names(tmp_path: Path) -> None:
    wide = {"1": {**CONFIG, "num_warps": 32}}
    write(tmp_path / "N=1,K=2,device_name=NVIDIA_H200.json", wide)
    write(tmp_path / "N=1,K=2,device_name=AMD_Instinct_MI300X.json", wide)
    ((kind, message),) = messages(tmp_path)
    assert kind == "config_over_limit"
    assert "2,048 threads" in message


def test_files_that_a_program_does_not_look_for(tmp_path: Path) -> None:
    write(tmp_path / QUANTISED.format(512, "H200", "[128,128]"), {"1": CONFIG})
    write(tmp_path / QUANTISED.format(256, "H200", "[128,128]"), {"1": CONFIG})
    files = read_config_files([tmp_path])
    looked = QUANTISED.format(512, "L20", "[128,128]"), QUANTISED.format(1, "L20", "[128,128]")
    found, notes = unused(files, AutotunedCalls(program="p.py", names=dict.fromkeys(looked)))
    assert [f.kind for f in found] == ["config_unused"]
    assert "K=256" in found[0].message
    assert notes == [f"`p.py` looks for `{looked[1]}`, and no file has this shape"]
    found, notes = unused(files, AutotunedCalls(program="p.py"))
    assert not found
    assert "looked up no file" in notes[0]


def test_entries_that_no_launch_selects(tmp_path: Path) -> None:
    data = {"1": CONFIG, "16": CONFIG, "64": CONFIG}
    write(tmp_path / QUANTISED.format(512, "H200", "[128,128]"), data)
    files = read_config_files([tmp_path])
    asked = AutotunedCalls(program="k.py:k", is_kernel=True)
    for rows in (3, 60):
        asked.add(replace(LAUNCH, integers={"M": rows, "N": 64, "K": 512}))
    found, notes = unused(files, asked)
    assert [f.message.partition(":")[0] for f in found] == ["M=16"]
    assert not notes
    asked.add(replace(LAUNCH, integers={"N": 64, "K": 512}))
    found, notes = unused(files, asked)
    assert not found
    assert "not each of N, K, M is an integer parameter" in notes[0]


def test_keys_that_no_launch_has(tmp_path: Path) -> None:
    for name, key in (("k", [5, "torch.float32"]), ("other", [5])):
        rows = [[{"kwargs": {"B": 1}, "num_warps": 4}, [1.0, 1.0, 1.0]]]
        write(tmp_path / f"{name}.autotune.json", {"key": key, "configs_timings": rows})
    asked = AutotunedCalls(program="p.py", launches=[LAUNCH])
    found, _ = unused(read_config_files([tmp_path]), asked)
    assert [f.message for f in found] == ["`p.py` launches no autotuned kernel `other`"]
    asked = AutotunedCalls(
        program="p.py", launches=[replace(LAUNCH, key_values=(6, "torch.float32"))]
    )
    found, _ = unused(read_config_files([tmp_path]), asked)
    assert 'never launches `k` with the key [5, "torch.float32"]' in found[0].message


def test_operators_without_a_kernel_that_uses_them(tmp_path: Path) -> None:
    (tmp_path / "tune_configs.yaml").write_text("a:\n- META: {B: 1}\nb:\n- META: {B: 2}\n")
    files = read_config_files([tmp_path])
    own = frozenset([files[0].entries[0].config])
    asked = AutotunedCalls(program="p.py", launches=[replace(LAUNCH, configs=own)])
    found, _ = unused(files, asked)
    assert [(f.kernel, f.location.line) for f in found] == [("b", 4)]


def test_a_file_for_another_gpu_is_not_tried(tmp_path: Path) -> None:
    write(tmp_path / QUANTISED.format(512, "H100_80GB_HBM3", "[128,128]"), {"1": CONFIG})
    write(tmp_path / QUANTISED.format(512, "H200", "[128,128]"), {"1": CONFIG})
    h200 = read_gpu("h200")
    tried = [gpus_of(file, [h200]) for file in read_config_files([tmp_path])]
    assert tried == [[], [h200]]
