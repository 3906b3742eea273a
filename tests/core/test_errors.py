"""Tests of error messages, which are formatted like a compiler's, even for unreadable sources."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ttools.core.errors import (
    InvalidKernelError,
    KernelError,
    TtoolsError,
    UnsupportedError,
    UsageError,
    during,
)
from ttools.core.location import SourceLocation, excerpt

SOURCE = """\
def kernel(x_ptr, y_ptr):
    x = tl.load(x_ptr + offsets) + 1
    y = x_ptr + offsets
\tz = (a +
\t     b)
    é = f(é, tl.load(p))
"""


@pytest.fixture
def kernel(tmp_path: Path) -> str:
    path = tmp_path / "kernel.py"
    path.write_text(SOURCE.replace("\tz", "    z").replace("\t  ", "      "))
    return str(path)


def underlined(location: SourceLocation) -> str:
    """Return the part of the source that the carets underline."""
    source, carets = excerpt(location).splitlines()
    return "".join(c for c, mark in zip(source, carets, strict=False) if mark == "^")


@pytest.mark.parametrize(
    ("line", "column", "expected"),
    [
        (2, 9, "tl.load(x_ptr + offsets)"),
        (2, 17, "x_ptr + offsets"),
        (3, 9, "x_ptr + offsets"),
        (3, 7, "="),
        (4, 9, "("),
        (4, 10, "a +"),
    ],
)
def test_carets_span_the_expression(kernel: str, line: int, column: int, expected: str) -> None:
    assert underlined(SourceLocation(kernel, line, column)) == expected


def test_located_error_reads_like_a_compiler_s(kernel: str) -> None:
    caller = SourceLocation("caller.py", 3, 4)
    location = SourceLocation(kernel, 2, 9, callers=(caller,))
    error = UnsupportedError("tt.load of cats", location, "use dogs")
    assert str(error) == (
        f"{kernel}:2:9: unsupported: tt.load of cats\n"
        "    2 |     x = tl.load(x_ptr + offsets) + 1\n"
        "      |         ^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "      called from caller.py:3:4\n"
        "      help: use dogs"
    )
    assert (error.what, error.location, error.help) == ("tt.load of cats", location, "use dogs")


def test_error_without_a_location() -> None:
    assert str(UnsupportedError("x")) == "unsupported: x"
    assert str(KernelError("x")) == "error: x"
    assert str(UsageError("x")) == "x"


def test_during_adds_the_activity() -> None:
    def fail() -> None:
        with during("launching softmax"), during("lowering tt.reduce in softmax"):
            raise TtoolsError("boom")

    with pytest.raises(TtoolsError) as caught:
        fail()
    assert str(caught.value) == (
        "boom\nDuring: lowering tt.reduce in softmax\nDuring: launching softmax"
    )


def test_location_omits_unknown_parts() -> None:
    assert str(SourceLocation("k.py", 3, 4)) == "k.py:3:4"
    assert str(SourceLocation("k.py", 3, 0)) == "k.py:3"
    assert str(SourceLocation("k.py", 0, 0)) == "k.py"


def test_unreadable_source_gives_no_excerpt(tmp_path: Path) -> None:
    assert excerpt(SourceLocation(str(tmp_path / "gone.py"), 1, 1)) == ""
    assert excerpt(SourceLocation(str(tmp_path), 1, 1)) == ""


def test_broken_source_gets_one_caret(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("x = = 1\n")
    assert excerpt(SourceLocation(str(path), 1, 5)) == "    1 | x = = 1\n      |     ^"


@given(
    content=st.binary(max_size=80),
    line=st.integers(-2, 6),
    column=st.integers(-2, 90),
)
@example(content=b"\x0b\x00", line=1, column=1)
def test_excerpt_never_raises(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, line: int, column: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.py"
    path.write_bytes(content)
    assert len(excerpt(SourceLocation(str(path), line, column)).splitlines()) <= 2


def test_a_usage_error_is_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"^wrong\nDuring: reading it$"), during("reading it"):
        raise UsageError("wrong")
    assert issubclass(InvalidKernelError, ValueError)
