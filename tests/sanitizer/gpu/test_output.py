"""The parser of compute-sanitizer's output: all forms of lines, cut-off reports, unknown forms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ttools.sanitizer.gpu.output import Frame, Output, Record, read_output

HEAD = "========= COMPUTE-SANITIZER\n"
NAMES = st.sampled_from(["add_kernel", "at::native::reduce<512, 1>", "$f$__main__$_g_Pfp32__"])
FILES = st.sampled_from(["/home/user/my file.py", "kernel.py", "<string>", "/a:b/c.py"])
COORDINATES = st.tuples(*[st.integers(0, 70000)] * 3)
PLACES = st.builds(Frame, NAMES, FILES, st.integers(1, 9999)) | st.builds(Frame, NAMES)
PROBLEMS = st.sampled_from(["out of bounds", "misaligned"])

accesses = st.builds(
    Record,
    position=st.just(0),
    text=st.just(""),
    space=st.sampled_from(["global", "shared", "local"]),
    access=st.sampled_from(["read", "write", "atomic"]),
    size=st.sampled_from([1, 4, 16]),
    problem=PROBLEMS,
    frame=PLACES,
    frames=st.lists(PLACES, max_size=2).map(tuple),
    thread=COORDINATES,
    block=COORDINATES,
    address=st.integers(1, 2**48),
)
#: The wording of versions from 2023 to 2026.
ADDRESSES = st.sampled_from(["Address", "Access at", "Access to"])
OFFSETS = st.sampled_from(["+0x1f0", ":0x1f0"])


def place_text(place: Frame, offset: str) -> str:
    return f"{place.function}{offset}" + (f" in {place.file}:{place.line}" if place.file else "")


def head_of(record: Record) -> str:
    return (
        f"Invalid __{record.space}__ {record.access} of size {record.size} "
        f"byte{'s' if record.size > 1 else ''}"
    )


def printed(record: Record, address: str, offset: str) -> str:
    """Return a record in the format of compute-sanitizer."""
    assert record.frame is not None
    numbers = [",".join(map(str, index or ())) for index in (record.thread, record.block)]
    lines = [
        head_of(record),
        f"    at {place_text(record.frame, offset)}",
        f"    by thread ({numbers[0]}) in block ({numbers[1]})",
        f"    {address} {record.address or 0:#x} is {record.problem}",
        "    and is 1,001 bytes after the nearest allocation at 0x7f00 of size 4,000 bytes",
        *(f"        Device Frame: {place_text(frame, offset)}" for frame in record.frames),
        "    Saved host backtrace up to driver entry point at kernel launch time",
        "        Host Frame: launch [0x1da3] in launcher.so",
    ]
    return "".join(f"========= {line}\n" for line in lines) + "========= \n"


@given(st.lists(accesses, max_size=4), ADDRESSES, OFFSETS)
def test_printed_records_are_read(records: list[Record], address: str, offset: str) -> None:
    report, expected = HEAD, []
    for record in records:
        expected.append(replace(record, position=len(report), text=head_of(record)))
        report += printed(record, address, offset)
    report += f"========= ERROR SUMMARY: {len(records)} errors\n"
    assert read_output(report.encode()) == Output(records=expected)


@given(st.lists(accesses, min_size=1, max_size=3), st.data())
def test_report_that_is_cut_off(records: list[Record], data: st.DataObject) -> None:
    report = (HEAD + "".join(printed(record, "Access to", "+0x1f0") for record in records)).encode()
    cut = read_output(report[: data.draw(st.integers(0, len(report)))])
    whole = read_output(report).records
    # Only a part of the last paragraph may be present.
    assert cut.records[:-1] == whole[: max(0, len(cut.records) - 1)]
    assert len(cut.records) + len(cut.remarks) <= len(whole)


def test_races() -> None:
    report = read_output(
        b"========= Warning: Race reported between Read access at k+0x340 in /x/k.py:58\n"
        b"=========     and Write access at k+0x320 in /x/k.py:60 [1,006 hazards]\n"
        b"=========     and Write access at k+0x330 [10 hazards]\n"
        b"========= \n"
        b"========= RACECHECK SUMMARY: 1 hazard displayed (0 errors, 1 warning)\n"
    )
    (record,) = report.records
    assert (record.level, record.access, record.frame) == (
        "warning",
        "read",
        Frame("k", "/x/k.py", 58),
    )
    assert [(access.access, access.frame.line, access.hazards) for access in record.accesses] == [
        *(("read", 58, 0), ("write", 60, 1006), ("write", 0, 10))
    ]


def test_remarks_are_separated_from_errors() -> None:
    output = read_output(
        b"========= COMPUTE-SANITIZER\n"
        b"script output in the middle\n"
        b"========= Internal Sanitizer Error: The Sanitizer encountered an error\n"
        b"========= Error: process didn't terminate successfully\n"
        b"========= Target application returned an error\n"
        b"========= 1,234 errors were not printed. Use --print-limit option to adjust\n"
        b"========= ERROR SUMMARY: 1334 errors\n"
    )
    assert output == Output(
        remarks=["Internal Sanitizer Error: The Sanitizer encountered an error"],
        not_printed=1234,
        crashed=True,
    )


def test_error_of_an_unknown_form_keeps_its_place_and_text() -> None:
    report = (Path(__file__).parent / "recorded/synccheck-divergent/report.txt").read_text("utf-8")
    parsed = read_output(report.encode()).records[0]
    text = report.replace("Barrier error detected. Divergent thread(s) in warp", "News of 2031")
    record = read_output(text.encode()).records[0]
    assert record == replace(parsed, text="News of 2031")
