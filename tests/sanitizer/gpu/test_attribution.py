"""Errors are attributed to launches by the position of their text, and to arguments by address."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.specs import tensor_argument

from ttools.core.spec import LaunchSpec
from ttools.sanitizer.gpu.attribution import Attribution, argument_at, distance
from ttools.sanitizer.gpu.launch_log import LogEntry
from ttools.sanitizer.gpu.output import Frame, Record

FUNCTIONS = st.sampled_from(["add", "mul", "sort"])


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[LogEntry], list[tuple[Record, LogEntry | None]]]:
    """Draw launches that are waited for one by one, and errors with the launch that caused them."""
    position, launches, errors = 28, list[LogEntry](), list[tuple[Record, LogEntry | None]]()
    for function in draw(st.lists(FUNCTIONS, max_size=5)):
        launch = LogEntry(
            spec=LaunchSpec(kernel=function, grid=(1, 1, 1)), function=function, begin=position
        )
        for _ in range(draw(st.integers(0, 3))):
            # A function that was not inlined has a different name than its kernel.
            name = draw(st.sampled_from([function, "helper"]))
            errors.append((Record(position=position, text="", frame=Frame(name)), launch))
            position += 100
        launch.end = position
        launches.append(launch)
        for _ in range(draw(st.integers(0, 2))):
            errors.append((Record(position=position, text="", frame=Frame("of_torch")), None))
            position += 100
    return launches, errors


@given(runs())
def test_errors_belong_to_the_launch_that_printed_them(
    run: tuple[list[LogEntry], list[tuple[Record, LogEntry | None]]],
) -> None:
    launches, errors = run
    index = Attribution(launches)
    assert [index.of(record) for record, _ in errors] == [launch for _, launch in errors]


def test_launches_without_an_end_are_matched_by_function() -> None:
    captured = LogEntry(spec=LaunchSpec(kernel="add", grid=(1, 1, 1)), function="add", begin=10)
    later = LogEntry(
        spec=LaunchSpec(kernel="mul", grid=(1, 1, 1)), function="mul", begin=20, end=30
    )
    index = Attribution([captured, later])
    assert index.of(Record(position=50, text="", frame=Frame("add"))) is captured
    assert index.of(Record(position=50, text="", frame=Frame("of_torch"))) is None
    assert index.of(Record(position=5, text="", frame=Frame("add"))) is None
    inner = Record(position=50, text="", frame=Frame("helper"), frames=(Frame("add"),))
    assert index.of(inner) is captured


storages = st.lists(
    st.tuples(st.sampled_from("xyz"), st.integers(0, 40), st.integers(1, 40)), max_size=4
)


@given(storages, st.integers(0, 100), st.frozensets(st.sampled_from("xyz")))
def test_argument_of_an_address(
    spans: list[tuple[str, int, int]], address: int, names: frozenset[str]
) -> None:
    arguments = [
        tensor_argument(name, storage=start, storage_bytes=size) for name, start, size in spans
    ]
    match = argument_at(arguments, address, names)
    named = [argument for argument in arguments if argument.name in names]
    gaps = {
        id(candidate): min(abs(address - byte) for byte in range(start, start + size))
        for candidate, (_, start, size) in zip(arguments, spans, strict=True)
    }
    assert all(distance(argument, address) == gaps[id(argument)] for argument in arguments)
    if match is not None:
        assert match in (named or arguments)
        assert gaps[id(match)] == min(
            gaps[id(candidate)] for candidate in named or arguments
        ) or named == [match]
        assert named or gaps[id(match)] == 0
    else:
        assert not named
        assert all(gaps.values())
