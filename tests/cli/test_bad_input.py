"""Invalid input files and arguments end every command with one sentence and exit status 2."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from ttools.cli.annotate import main as annotate

Run = Callable[..., "CompletedProcess[str]"]

DEEP = 50_000
TTIR = {
    "empty": b"",
    "zeros": b"\0" * 64,
    "zero within": b"module {\n\0tt.func public @k() { tt.return } }",
    "no kernel": b"module {}",
    "private": b"module { tt.func private @k() { tt.return } }",
    "lists": b"module attributes {a = " + b"[" * DEEP + b"]" * DEEP + b"} {}",
    "regions": b"module {" + b"{" * DEEP + b"}" * DEEP + b"}",
    # Deep enough for MLIR to run out of stack; deeper nesting would take MLIR seconds to parse.
    "types": b"module { tt.func public @k(%x: " + b"!tt.ptr<" * 12_000 + b">" * 12_000 + b") {} }",
    "no UTF-8": b"module { \xff }",
    "locations": b"module { tt.func public @k() { tt.return loc(" + b"fused[" * DEEP,
}


def refused(result: CompletedProcess[str]) -> str:
    """Return the error message of a command that refused its input with one sentence."""
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, result.stderr
    assert len(errors[0]) < 600
    return errors[0]


@pytest.mark.parametrize("text", TTIR.values(), ids=TTIR)
@pytest.mark.parametrize("command", ["interpret", "inspect"])
def test_invalid_ttir_files(called_ttools: Run, tmp_path: Path, command: str, text: bytes) -> None:
    (tmp_path / "bad.ttir").write_bytes(text)
    assert "bad.ttir" in refused(called_ttools(command, "bad.ttir"))


@pytest.mark.parametrize("command", ["sanitize", "profile"])
def test_other_commands_refuse_invalid_ttir_files(
    called_ttools: Run, tmp_path: Path, command: str
) -> None:
    (tmp_path / "bad.ttir").write_bytes(TTIR["lists"])
    assert "nests brackets deeper than 200 levels" in refused(called_ttools(command, "bad.ttir"))


DOCUMENTS = [
    ("profile", "compare", "FILE", "FILE"),
    ("profile", "view", "FILE"),
    ("tune", "show", "FILE"),
    ("sanitize", "--baseline", "FILE", "-c", "pass"),
    ("sanitize", "--suppressions", "FILE", "-c", "pass"),
    ("tune", "--locked", "--lock", "FILE", "-c", "pass"),
]


@pytest.mark.parametrize("words", DOCUMENTS, ids=" ".join)
@pytest.mark.parametrize("text", ["[" * DEEP, '{"a":' * DEEP, "a = " + "[" * DEEP, "\0", "\udcff"])
def test_deeply_nested_documents(
    called_ttools: Run, tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    (tmp_path / "bad").write_bytes(text.encode("utf-8", "surrogateescape"))
    assert "bad" in refused(called_ttools(*("bad" if word == "FILE" else word for word in words)))


KERNEL = """
module {
  tt.func public @k(%x: !tt.ptr<f32>, %n: i32) {
    tt.return
  }
}
"""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--arg", f"x=rand:f32[{','.join('1' * 501)}]"), "a tensor of 501 dimensions"),
        (("--arg", f"x=rand:f32[{'9' * 5000}]"), "an extent has more than 18 digits"),
        (("--arg", "x=rand:f32[0,9999999999,9999999999]"), "not enough memory for a tensor"),
        (("--arg", "x=" + "[" * DEEP), "is not a tensor"),
        (("--arg", "x=zeros:f32[1]", "--grid", "9" * 5000), "--grid is `999"),
        (("--arg", "x=zeros:f32[1]", "--grid", "[" * DEEP), "--grid is `[[["),
        (("--arg", "x=zeros:f32[1]", "--grid", "1,1,1,1"), "one to three numbers"),
        (("--arg", "x=zeros:f32[1]", "--grid", "²"), "one to three numbers"),
    ],
)
def test_invalid_arguments(
    called_ttools: Run, tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "k.ttir").write_text(KERNEL)
    result = called_ttools("interpret", "k.ttir", "--arg", "n=1", *words)
    assert result.returncode == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.stderr


LAUNCH = """
import torch, triton, triton.language as tl
@triton.jit
def k(x, n):
    tl.store(x, n)
GRID = {grid}
k[GRID](torch.zeros(1), 1)
"""


@pytest.mark.parametrize("grid", ["(1, 1, 1, 1)", "lambda meta: (1, 1, 1, 1)", "()"])
@pytest.mark.parametrize("engine", ["native", "eager"])
def test_grids_with_no_or_four_dimensions(
    ttools: Run, tmp_path: Path, grid: str, engine: str
) -> None:
    (tmp_path / "grid.py").write_text(LAUNCH.format(grid=grid))
    result = ttools("interpret", "--engine", engine, "grid.py")
    assert "dimensions; Triton grids have one to three" in refused(result)


def test_a_generic_module_runs(ttools: Run, tmp_path: Path) -> None:
    from tools.fuzz_readers.seeds import GENERIC

    (tmp_path / "generic.ttir").write_text(GENERIC)
    words = ("--arg", "arg0=zeros:f32[40]", "--arg", "arg1=30")
    result = ttools("interpret", "generic.ttir", *words)
    assert result.returncode == 0, result.stderr
    assert "[1. 1. 1. ... 0. 0. 0.]" in result.stdout


def test_a_home_folder_that_is_not_writable(ttools: Run, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(LAUNCH.format(grid="(1,)"))
    nowhere = {"HOME": "/proc/1/none", "TRITON_CACHE_DIR": "", "TTOOLS_CACHE_DIR": ""}
    result = ttools("interpret", "k.py", **nowhere)
    assert result.returncode == 0, result.stderr
    assert "Triton cannot write to its cache /proc/1/none/.triton/cache" in result.stderr


@pytest.mark.parametrize(
    "text", ["[" * DEEP, '{"runs": ' + "[" * 990 + "]" * 990 + "}", "\udcff", ""]
)
def test_invalid_sarif_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    path = tmp_path / "bad.sarif"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert annotate([str(path)]) == 2
    assert capsys.readouterr().err == f"error: `{path}` is not SARIF\n"


def test_sarif_text_that_cannot_be_encoded(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result = '{"ruleId": "r", "message": {"text": "a \\ud800 b"}}'
    (tmp_path / "found.sarif").write_text('{"runs": [{"results": [' + result + "]}]}")
    assert annotate([str(tmp_path / "found.sarif")]) == 0
    assert "a \\ud800 b" in capfd.readouterr().out
