"""The line that launches: whose frames are skipped on the way to it."""

from __future__ import annotations

from typing import Any

import pytest

from ttools.core.process.host_line import host_line


def _called_by(file: str, **names: Any) -> str | None:
    """The host's line as code of such a file and module sees it, which is called from here."""
    scope: dict[str, Any] = {"host_line": host_line, **names}
    exec(compile("found = host_line()", file, "exec"), scope)
    found = scope["found"]
    return None if found is None else str(found)


def test_the_user_s_code_has_it() -> None:
    assert _called_by("script.py", __name__="__main__") == "script.py:1"
    assert _called_by("<string>", __name__="__main__") == "<string>:1"


def test_libraries_do_not() -> None:
    for name in ("torch.nn.functional", "triton.runtime.jit", "ttools.interpreter.api"):
        found = _called_by("a_library.py", __name__=name)
        assert found is not None
        assert found.startswith(__file__)


@pytest.mark.parametrize("file", ["<string>", "<eval_with_key>.7", "torch"])
def test_what_torch_compile_has_written_does_not(file: str) -> None:
    """Such code has no module; AOTAutograd names files of torch's own."""
    if file == "torch":
        torch: Any = pytest.importorskip("torch")
        file = torch.__file__.replace("__init__.py", "_functorch/codegen(call)")
    found = _called_by(file, __name__="")
    assert found is not None
    assert found.startswith(__file__)
