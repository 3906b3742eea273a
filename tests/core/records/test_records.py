"""Tests of files of records: writing, reading, and errors for damaged or malicious files."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.core.errors import UsageError
from ttools.core.records.launch_record import (
    Excerpt,
    Filling,
    LaunchRecord,
    Record,
    Storage,
)
from ttools.core.records.reading import read_record
from ttools.core.records.writing import write_record
from ttools.core.spec import ArgumentSpec, CallSite, CompileOptions, LaunchSpec, TensorSpec

names = st.text("abcxyz_[]0123456789é.", min_size=1, max_size=12)
floats = st.floats(allow_nan=False)


@st.composite
def storages(draw: st.DrawFn) -> Storage:
    size = draw(st.integers(0, 64))
    place = draw(st.integers(0, 255))
    if draw(st.booleans()):
        data = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8)
        return Storage(size=size, place=place, data=data)
    finite = st.floats(allow_nan=False, allow_infinity=False)
    filling = Filling(
        kind=draw(st.sampled_from(["normal", "uniform", "constant"])),
        dtype=draw(names), first=draw(finite), second=draw(finite), seed=draw(st.integers(0, 9)),
    )  # fmt: skip
    return Storage(size=size, place=place, filling=filling)


@st.composite
def tensors(draw: st.DrawFn, memory: list[Storage]) -> TensorSpec:
    """Draw a view inside its storage."""
    number = draw(st.integers(0, len(memory) - 1))
    size = memory[number].size
    offset = draw(st.integers(0, size))
    extent = draw(st.integers(0, size - offset))
    step = draw(st.integers(1, 3))
    shape = (extent // step + (1 if extent % step else 0),)
    return TensorSpec(
        storage=number, offset=offset, shape=shape, strides=(step,), dtype="uint8", itemsize=1
    )


@st.composite
def records(draw: st.DrawFn) -> Record:
    memory = draw(st.lists(storages(), min_size=1, max_size=3))
    scalars = st.one_of(st.integers(-(2**63), 2**64 - 1), floats, st.booleans())
    parameter = st.one_of(
        st.builds(lambda n, v: ArgumentSpec(name=n, type="*fp32", value=v), names, st.none()),
        st.builds(lambda n, v: ArgumentSpec(name=n, type="*i8", value=v), names, tensors(memory)),
        st.builds(lambda n, v: ArgumentSpec(name=n, type="i32", value=v), names, scalars),
    )
    configs = st.dictionaries(names, st.integers() | st.booleans() | names)
    spec = st.builds(
        LaunchSpec,
        kernel=names,
        grid=st.tuples(*[st.integers(0, 1000)] * 3),
        arguments=st.lists(parameter, max_size=4).map(tuple),
        options=st.builds(CompileOptions, fp_fusion=st.booleans(), debug=st.booleans()),
        site=st.builds(CallSite, line=st.none() | names, config=st.none() | configs),
    )
    launch = st.builds(
        LaunchRecord,
        spec=spec,
        ttir=st.text("abc\n %@\\22", max_size=30),
        specialisation=st.dictionaries(names, names, max_size=2),
    )
    line = st.text(st.characters(exclude_categories=["C", "Zl", "Zp", "Zs"]), max_size=20)
    excerpt = st.builds(
        Excerpt, file=names, lines=st.dictionaries(st.integers(1, 900), line, max_size=3)
    )
    return Record(
        launches=tuple(draw(st.lists(launch, max_size=3))),
        storages=tuple(memory),
        excerpts=tuple(draw(st.lists(excerpt, max_size=2))),
        made_by={"ttools": "1"},
    )


@settings(max_examples=60)
@given(records())
def test_records_are_read_unchanged(
    tmp_path_factory: pytest.TempPathFactory, record: Record
) -> None:
    path = tmp_path_factory.getbasetemp() / "round.tt"
    write_record(record, path)
    copy = read_record(path)
    assert copy.launches == record.launches
    assert copy.excerpts == record.excerpts
    assert copy.made_by == record.made_by
    for old, new in zip(record.storages, copy.storages, strict=True):
        assert (old.size, old.place, old.filling) == (new.size, new.place, new.filling)
        assert (old.data is None) == (new.data is None)
        if old.data is not None:
            assert new.data is not None
            assert new.data.tobytes() == old.data.tobytes()


# ---- damage


def small() -> Record:
    tensor = TensorSpec(
        storage=0, offset=4, shape=(3, 2), strides=(2, 1), dtype="float32", itemsize=4
    )
    arguments = (
        ArgumentSpec(name="x_ptr", type="*fp32", value=tensor),
        ArgumentSpec(name="n", type="i32", value=3),
        ArgumentSpec(name="f", type="fp32", value=float("inf")),
    )
    filling = Filling(kind="normal", dtype="float32", first=0.0, second=1.0)
    return Record(
        launches=(
            LaunchRecord(
                spec=LaunchSpec(
                    kernel="kernel", grid=(2, 1, 1), arguments=arguments,
                    site=CallSite(config={"BLOCK": 4}, line="a.py:3"),
                ),
                ttir="module {}", specialisation={"x_ptr": "*fp32"},
            ),
        ),
        storages=(
            Storage(size=32, place=0, data=np.arange(32, dtype=np.uint8)),
            Storage(size=8, place=16, filling=filling),
        ),
        excerpts=(Excerpt(file="a.py", lines={3: "x"}),),
        made_by={"ttools": "1"},
    )  # fmt: skip


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("records") / "small.tt"
    write_record(small(), path)
    return path.read_bytes()


@settings(max_examples=400)
@given(data=st.data())
def test_damaged_bytes_are_errors(
    tmp_path_factory: pytest.TempPathFactory, original: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(original)
    for _ in range(data.draw(st.integers(0, 4))):
        position = data.draw(st.integers(0, len(damaged) - 1))
        damaged[position] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(0, len(damaged))) :]
    path = tmp_path_factory.getbasetemp() / "damaged.tt"
    path.write_bytes(damaged)
    with contextlib.suppress(UsageError):  # the damage may have no effect
        read_record(path)


def rewritten(original: bytes, path: Path, document: object) -> None:
    """Write a copy of a file of a record with another JSON document."""
    with zipfile.ZipFile(io.BytesIO(original)) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            text = json.dumps(document) if name == "record.json" else source.read(name)
            target.writestr(name, text)


def document_of(original: bytes) -> Any:
    with zipfile.ZipFile(io.BytesIO(original)) as archive:
        return json.loads(archive.read("record.json"))


def places(value: object) -> list[tuple[Any, Any]]:
    """Return every container of a document with each of its keys."""
    if isinstance(value, dict):
        items: list[tuple[Any, Any]] = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    else:
        return []
    return [(value, key) for key, _ in items] + [p for _, inner in items for p in places(inner)]


#: Values that are unexpected in most fields.
json_values = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
        st.sampled_from([2**31, 2**63, 2**64, -1, "inf", "nan", "storages/0.npy", "\x1b[31m"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)  # fmt: skip


@settings(max_examples=400)
@given(data=st.data())
def test_invalid_fields_are_errors(
    tmp_path_factory: pytest.TempPathFactory, original: bytes, data: st.DataObject
) -> None:
    document = document_of(original)
    for _ in range(data.draw(st.integers(1, 2))):
        container, key = data.draw(st.sampled_from(places(document)))
        if isinstance(container, dict) and data.draw(st.integers(0, 4)) == 0:
            container.pop(key, None)
        else:
            container[key] = data.draw(json_values)
    path = tmp_path_factory.getbasetemp() / "other.tt"
    rewritten(original, path, document)
    try:
        record = read_record(path)
    except UsageError as error:
        message = str(error)
    else:
        message = ""
        for launch in record.launches:
            for argument in launch.spec.arguments:
                if argument.tensor is not None:
                    assert reaches_no_further(argument.tensor, record)
    assert not message or message.isprintable()


def reaches_no_further(tensor: TensorSpec, record: Record) -> bool:
    size = record.storages[tensor.storage].size
    if 0 in tensor.shape:
        return True
    corners = [0]
    for extent, stride in zip(tensor.shape, tensor.strides, strict=True):
        corners += [corner + (extent - 1) * stride for corner in corners]
    ends = [tensor.offset + corner * tensor.itemsize for corner in corners]
    return min(ends) >= 0 and max(ends) + tensor.itemsize <= size


def change(*keys: Any, to: object) -> Callable[[Any], None]:
    def apply(document: Any) -> None:
        for key in keys[:-1]:
            document = document[key]
        document[keys[-1]] = to

    return apply


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (
            change("version", to=2),
            "but this ttools reads only versions up to 1",
        ),
        (change("format", to="other"), "not a record of launches"),
        (change("storages", 0, "size", to=31), "is not an array of 31 bytes"),
        (
            change("storages", 0, "size", to=1 << 40),
            "Expected `int` <= 8589934592 - at `$.storages[0].size`",
        ),
        (change("storages", 0, "data", to="../../etc/passwd"), "its part `../../etc/passwd` is"),
        (
            change("launches", 0, "parameters", 0, "value", "shape", to=[4, 2]),
            "a tensor in one of the storages - at `$.launches[0].parameters[0].value`",
        ),
        (
            change("launches", 0, "parameters", 1, "type", to="*i32"),
            "Expected a value of type *i32 - at `$.launches[0].parameters[1]`",
        ),
        (
            change("launches", 0, "kernel", to="a\x1b[31m"),
            "Expected a line of text in `kernel` - at `$.launches[0]`",
        ),
        (
            change("launches", 0, "grid", to=[1, 1]),
            "Expected `array` of length 3, got 2 - at `$.launches[0].grid`",
        ),
        (change("launches", to=None), "Expected `array`, got `null` - at `$.launches`"),
        (
            change("storages", 1, "filling", "first", to="one"),
            "Expected a number in hexadecimal - at `$.storages[1].filling`",
        ),
        (
            change("launches", 0, "parameters", 1, "value", "number", to=1 << 64),
            "Expected an integer of 64 bits - at `$.launches[0].parameters[1].value`",
        ),
    ],
)
def test_error_messages(
    tmp_path: Path, original: bytes, edit: Callable[[Any], None], sentence: str
) -> None:
    document = copy.deepcopy(document_of(original))
    edit(document)
    path = tmp_path / "a.tt"
    rewritten(original, path, document)
    with pytest.raises(UsageError) as caught:
        read_record(path)
    assert sentence in str(caught.value)


class Trap:
    """An object that has a side effect when it is unpickled."""

    done: list[str] = []  # noqa: RUF012

    def __reduce__(self) -> Any:
        return (Trap.done.append, ("unpickled",))


def test_nothing_is_unpickled(tmp_path: Path, original: bytes) -> None:
    trap = io.BytesIO()
    np.save(trap, np.array([Trap()], dtype=object), allow_pickle=True)
    path = tmp_path / "trap.tt"
    with zipfile.ZipFile(io.BytesIO(original)) as source, zipfile.ZipFile(path, "w") as target:
        for name in source.namelist():
            target.writestr(name, trap.getvalue() if name.endswith("0.npy") else source.read(name))
    with pytest.raises(UsageError, match="is not an array of 32 bytes"):
        read_record(path)
    assert not Trap.done


def test_files_that_unpack_to_too_many_bytes_are_rejected(tmp_path: Path, original: bytes) -> None:
    path = tmp_path / "bomb.tt"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("record.json", json.dumps(document_of(original)))
        archive.writestr("ttir/0.ttir", " " * (65 << 20))
        archive.writestr("storages/0.npy", b"")
    with pytest.raises(UsageError, match=r"bytes; at most|is not an array"):
        read_record(path)
    document = document_of(original)
    document["storages"][0] = document["storages"][1]
    rewritten(original, path, document)
    with zipfile.ZipFile(path) as archive:
        texts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name, " " * (65 << 20) if name == "ttir/0.ttir" else text)
    with pytest.raises(UsageError, match="bytes; at most"):
        read_record(path)


def test_files_that_are_not_records(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no file"):
        read_record(tmp_path / "missing.tt")
    (tmp_path / "text.tt").write_text("hello")
    with pytest.raises(UsageError, match="not a record of launches"):
        read_record(tmp_path / "text.tt")
    with zipfile.ZipFile(tmp_path / "other.tt", "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(UsageError, match=r"not a record of .*, because it has no record.json"):
        read_record(tmp_path / "other.tt")
    (tmp_path / "folder.tt").mkdir()
    with pytest.raises(UsageError, match="cannot read"):
        read_record(tmp_path / "folder.tt")


def test_unwritable_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        write_record(small(), tmp_path / "no" / "such" / "folder.tt")
