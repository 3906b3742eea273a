"""Files of Proton: parsing, metrics and rows, including files on which Proton's viewer fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.errors import UsageError
from ttools.profiler.view.file import ProtonProfile, read
from ttools.profiler.view.metrics import available, columns
from ttools.profiler.view.node_table import Selection, rows

H100 = {"arch": "90", "bus_width": 5120, "memory_clock_rate": 2619000, "clock_rate": 1980000}


def node(name: str, *children: Any, **metrics: Any) -> dict[str, Any]:
    with_units = {key.replace("_ns", " (ns)"): value for key, value in metrics.items()}
    return {
        "frame": {"name": name, "type": "function"},
        "metrics": with_units,
        "children": children,
    }


def kernel(name: str, ns: int, count: int = 1, device: str = "0", **more: Any) -> dict[str, Any]:
    on = {"device_id": device, "device_type": "CUDA"}
    return node(name, time_ns=ns, count=count, **on, **more)


def profile_of(folder: Path, *trees: Any, devices: Any = None, name: str = "p") -> ProtonProfile:
    path = folder / f"{name}.hatchet"
    path.write_text(json.dumps([*trees, *([devices] if devices is not None else [])]))
    return read(path)


def values(profile: ProtonProfile, *names: str, **chosen: Any) -> dict[str, tuple[Any, ...]]:
    table = rows([profile], columns(list(names), [profile]), Selection(**chosen))
    return {row.path[-1]: row.values[0] for row in table}


def test_times_rates_and_shares(tmp_path: Path) -> None:
    scope = node("s", kernel("a", 2000, 4, flops16=6_000_000), kernel("b", 1000, bytes=500))
    profile = profile_of(tmp_path, node("ROOT", scope, kernel("c", 1000), time_ns=0, count=0))
    result = values(profile, "time/us", "avg_time/us", "time/%", "tflop16/s", "gbyte/s", "count")
    assert result["ROOT"] == (4.0, pytest.approx(4 / 6), 100.0, *(pytest.approx(1.5), 0.125, 6))
    assert result["a"] == (2.0, 0.5, 50.0, pytest.approx(3.0), None, 4.0)
    assert result["c"] == (1.0, 1.0, 25.0, None, None, 1.0)
    assert [c.name for c in columns([], [profile])] == [
        *("time/ms", "time/%", "count", "tflop16/s", "gbyte/s")
    ]


def test_utilisation_by_device_and_without_bytes(tmp_path: Path) -> None:
    a = kernel("a", 1000, flops16=494.7e6)  # half of an H100's peak, and no bytes
    b = kernel("b", 1000, device="1", bytes=1675e3)
    strange = kernel("c", 1000, device="2", bytes=1e6, flops32=1e6)
    device_table = {"CUDA": {"0": H100, "1": H100, "2": {**H100, "arch": "999"}}}
    result = values(profile_of(tmp_path, node("ROOT", a, b, strange), devices=device_table), "util")
    assert result["a [CUDA 0]"] == (pytest.approx(0.5),)
    assert result["b [CUDA 1]"] == (pytest.approx(0.5),)
    assert result["c [CUDA 2]"] == (None,)
    assert result["ROOT"] == (None,)


def test_vectors_odd_values_and_several_roots(tmp_path: Path) -> None:
    trees = [
        node("one", kernel("a", 1000, cycles=[1, 2, 3], odd=None, flag=True, text="x")),
        node("two", kernel("b", 1000, cycles=[4, 5, 6])),
        {"frame": {}, "metrics": None, "children": None},
    ]
    profile = profile_of(tmp_path, *trees)
    result = values(profile, "cycles", "time/us")
    assert result["a"][0] == (1.0, 2.0, 3.0)
    assert result["ROOT"] == ((5.0, 7.0, 9.0), 2.0)
    assert result["(no name)"] == (None, None)


@pytest.mark.parametrize("text", ["[]", "[{}]", '[{"frame": {"name": "ROOT"}, "metrics": {}}]'])
def test_profiles_without_anything(tmp_path: Path, text: str) -> None:
    path = tmp_path / "empty.hatchet"
    path.write_text(text)
    profile = read(path)
    assert profile.metrics == []
    assert available(profile) == ([], [])
    assert [row.path for row in rows([profile], columns([], [profile]), Selection())] == [("ROOT",)]


@pytest.mark.parametrize("text", ["", "no", "[1]", "{}", '"x"', "[", "\udcff"])
def test_invalid_profiles(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.hatchet"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UsageError, match=r"p\.hatchet` is neither"):
        read(path)
    with pytest.raises(UsageError, match="cannot read"):
        read(tmp_path / "gone.hatchet")


@pytest.mark.parametrize("levels", [199, 500, 3000])
def test_deep_files_are_shown_or_refused(tmp_path: Path, levels: int) -> None:
    path = tmp_path / "p.hatchet"
    node = '{"frame": {"name": "x"}, "metrics": {"count": 1}, "children": ['
    path.write_text("[" + node * levels + "]}" * levels + "]")
    if levels < 200:
        profile = read(path)
        assert len(rows([profile], columns([], [profile]), Selection())) >= levels
    else:
        with pytest.raises(UsageError, match="nested too deeply"):
            read(path)


def test_profiles_of_ttools(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"schema": "ttools.profile/1"}')
    with pytest.raises(UsageError, match="use `ttools profile compare`"):
        read(path)


def test_traces_are_trees_by_their_stacks(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "cat": "kernel", "name": "a", "ts": 0, "dur": 2.0,
         "args": {"call_stack": ["ROOT", "s", "a"]}},
        {"ph": "X", "cat": "kernel", "name": "a", "ts": 9, "dur": 4.0,
         "args": {"call_stack": ["ROOT", "s", "a"]}},
        {"ph": "X", "cat": "scope", "name": "s", "ts": 0, "dur": 20.0},
        {"ph": "M", "name": "process_name"},
    ]  # fmt: skip
    path = tmp_path / "t.chrome_trace"
    # Proton writes a document for each stream.
    first, second = ({"traceEvents": part} for part in (events[:1], events[1:]))
    path.write_text(f"{json.dumps(first)}\n{json.dumps(second)}\n")
    result = values(read(path), "time/us", "count", "avg_time/us")
    assert list(result) == ["ROOT", "s", "a"]
    assert result["a"] == result["ROOT"] == (pytest.approx(6.0), 2.0, pytest.approx(3.0))


def test_selection(tmp_path: Path) -> None:
    inner = node("inner", kernel("a", 1000), kernel("b", 10))
    profile = profile_of(tmp_path, node("ROOT", node("outer", inner), kernel("c", 100)))
    assert list(values(profile, "time/ns", include="^inner")) == [
        "ROOT",
        "outer",
        "inner",
        "a",
        "b",
    ]
    assert list(values(profile, "time/ns", exclude="inner")) == ["ROOT", "outer", "c"]
    assert list(values(profile, "time/ns", depth=1)) == ["ROOT", "outer", "c"]
    assert list(values(profile, "time/ns", least=5.0)) == ["ROOT", "outer", "inner", "a", "c"]
    with pytest.raises(UsageError, match="not a valid regular expression"):
        values(profile, "time/ns", include="(")


def test_unknown_metrics_are_named(tmp_path: Path) -> None:
    profile = profile_of(tmp_path, node("ROOT", kernel("a", 1000)))
    with pytest.raises(UsageError, match="`gbyte/s` needs `bytes`, which no file has"):
        columns(["gbyte/s"], [profile])
    with pytest.raises(UsageError, match=r"`tim` needs `tim`.*time"):
        columns(["tim"], [profile])


def test_exclusive_metrics_do_not_add_up(tmp_path: Path) -> None:
    timed = {**node("s", kernel("a", 1000))}
    timed["metrics"] = {"cpu_time (ns)(exc)": 5000}
    result = values(profile_of(tmp_path, node("ROOT", timed)), "cpu_time/us", "cpu_time/%")
    assert result["s"] == (5.0, 100.0)
    assert result["ROOT"] == (None, None)


def test_kernels_of_one_path_on_two_devices_have_a_row_each(tmp_path: Path) -> None:
    profile = profile_of(
        tmp_path, node("ROOT", kernel("a", 1000), kernel("a", 3000, device="1")), name="two"
    )
    table = rows([profile], columns(["time/us"], [profile]), Selection())
    assert [(row.path[-1], row.values[0]) for row in table] == [
        *(("ROOT", (4.0,)), ("a [CUDA 0]", (1.0,)), ("a [CUDA 1]", (3.0,)))
    ]


def test_several_files_are_shown_side_by_side(tmp_path: Path) -> None:
    first = profile_of(tmp_path, node("ROOT", node("s", kernel("a", 2000))), name="one")
    two = profile_of(tmp_path, node("ROOT", node("s", kernel("b", 1000), kernel("a", 4000))))
    table = rows([first, two], columns(["time/us"], [first, two]), Selection())
    assert [(row.path[-1], row.values) for row in table] == [
        ("ROOT", ((2.0,), (5.0,))),
        ("s", ((2.0,), (5.0,))),
        ("a", ((2.0,), (4.0,))),
        ("b", ((None,), (1.0,))),
    ]


# --- MessagePack ----------------------------------------------------------------------------------


@given(data=st.binary(max_size=30))
def test_any_bytes_are_a_profile_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.hatchet_msgpack"
    path.write_bytes(data)
    try:
        read(path)
    except UsageError as error:
        assert "neither" in str(error)  # noqa: PT017


def test_a_tree_in_message_pack(tmp_path: Path) -> None:
    path = tmp_path / "p.hatchet_msgpack"
    path.write_bytes(msgspec.msgpack.encode([node("ROOT", kernel("a", 1000))]))
    assert values(read(path), "time/us")["a"] == (1.0,)
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(UsageError, match=r"neither JSON nor MessagePack: .* trailing characters"):
        read(path)


def test_message_pack_that_nests_too_deeply(tmp_path: Path) -> None:
    path = tmp_path / "p.hatchet_msgpack"
    path.write_bytes(b"\x91" * 1_000_000 + b"\xc0")
    with pytest.raises(UsageError, match="nested too deeply"):
        read(path)
