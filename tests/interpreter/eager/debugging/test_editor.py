"""Tests of breakpoints in an editor, with debugpy and a script whose kernel runs eagerly."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from adapter import Editor

pytest.importorskip("debugpy", reason="debugpy is not installed")
pytest.importorskip("torch", reason="torch is not installed")  # the script imports it

TUTORIAL = Path(__file__).parents[4] / "docs" / "tutorials" / "debugging.md"

SCRIPT = """\
import torch
import triton
import triton.language as tl


@triton.jit
def double(v):
    twice = v * 2
    breakpoint()
    return twice


@triton.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x_ptr + offsets, mask=offsets < n)
    w = double(v)
    total = tl.sum(w, 0)
    tl.store(x_ptr + offsets, w + total, mask=offsets < n)


def main():
    x = torch.arange(6, dtype=torch.float32)
    kernel[(2,)](x, 6, BLOCK=4)
    print(x.tolist())


main()
"""


def documented_configuration() -> dict[str, Any]:
    """Return the launch configuration in the tutorial."""
    (text,) = re.findall(r"^```json\n(.*?)^```", TUTORIAL.read_text(), re.MULTILINE | re.DOTALL)
    (configuration,) = json.loads(text)["configurations"]
    return dict(configuration)


@pytest.mark.slow
def test_breakpoints_variables_expressions_and_steps(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    configuration = documented_configuration()
    words = [word.replace("${file}", "script.py") for word in configuration["args"]]
    settings = {name: configuration[name] for name in ("justMyCode", "rules")}
    with Editor(["-m", configuration["module"], *words], tmp_path, settings) as editor:
        editor.start({"script.py": [18]})
        assert editor.stopped() == ("breakpoint", 18, "kernel")
        variables = editor.variables()
        assert variables["offsets"] == "int32[4] [0 1 2 3]"
        assert variables["x_ptr"] == "pointer<fp32> x_ptr + 0"
        assert {*variables} == {"x_ptr", "n", "BLOCK", "pid", "offsets", "v"}
        assert editor.evaluate("tl.sum(v, 0)") == "fp32 6.0"
        assert editor.evaluate("offsets * 2 + BLOCK") == "int32[4] [ 4  6  8 10]"
        # The editor shows no frame of the engine between the kernel and its launch.
        names = [frame["name"] for frame in editor.frames()]
        assert names[:3] == ["kernel", "main", "<module>"]
        assert editor.evaluate("x.shape", frame=1) == "torch.Size([6])"

        assert editor.go("stepIn") == ("step", 8, "double")
        assert editor.go("next")[1:] == (9, "double")
        assert editor.go("next")[1:] == (10, "double")  # over `breakpoint()` and out of its hook
        assert editor.variables()["twice"] == "fp32[4] [0. 2. 4. 6.]"
        assert editor.go("stepOut")[2] == "kernel"
        assert editor.go("next") == ("step", 19, "kernel")
        assert editor.go("stepIn") == ("step", 20, "kernel")  # never into Triton or the engine
        assert editor.variables()["total"] == "fp32 12.0"

        assert editor.go("continue") == ("breakpoint", 18, "kernel")
        assert editor.variables()["pid"] == "int32 1"
        assert editor.go("continue")[1:] == (10, "double")  # stopped by `breakpoint()`
        status, written = editor.finish()
    assert status == 0, written
    assert "[12.0, 14.0, 16.0, 18.0, 26.0, 28.0]" in written
