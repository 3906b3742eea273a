"""Every example runs, compares its results with torch and reports success."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.forked_python import PYTHON

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
#: Examples that run without fusion in the default test run: a loop, a reduction, and products.
WITHOUT_FUSION = ("vector_add", "softmax", "matmul")
each_example = pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)


def results_of(path: Path) -> dict[str, torch.Tensor]:
    """Run an example and return the tensors that its kernels computed."""
    if path.stem == "liger":
        pytest.importorskip("liger_kernel", reason="liger-kernel is not installed")
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    results: dict[str, torch.Tensor] = module.main()
    return results


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 11


@pytest.mark.smoke
@each_example
def test_example(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert results_of(path)
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"ok {path.stem}:")


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(
            path, id=path.stem, marks=() if path.stem in WITHOUT_FUSION else pytest.mark.slow
        )
        for path in EXAMPLES
    ],
)
def test_example_without_fusion(path: Path) -> None:
    from ttools.interpreter import interpret

    with interpret(schedule="materialised"):
        assert results_of(path)


@pytest.mark.slow
@each_example
def test_example_as_python(path: Path) -> None:
    from ttools.interpreter import interpret

    with interpret(engine="eager") as run:
        assert results_of(path)
    assert run.stats


@pytest.mark.smoke
@pytest.mark.parametrize(
    "command", [[], ["-m", "ttools_entry", "interpret"]], ids=["python", "cli"]
)
def test_example_as_a_script(command: list[str]) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    script = str(ROOT / "examples" / "vector_add.py")
    result = PYTHON.run([*command, script])
    assert result.returncode == 0, result.stderr
    assert "ok vector_add" in result.stdout


@pytest.mark.gpu
@each_example
def test_the_gpu_computes_the_same(path: Path) -> None:
    import torch

    from ttools.interpreter import interpret

    on_gpu = results_of(path)
    with interpret() as run:
        here = results_of(path)
    assert run.stats
    for name, value in on_gpu.items():
        # Both results were compared with torch before; this comparison shows that all of it was
        # copied back. A Hopper GPU adds products of 8-bit floats with 14 bits, unlike the engine.
        coarse = value.dtype.itemsize < 4 or "float8" in name
        rtol, atol = (2e-2, 2e-2) if coarse else (1e-4, 2e-4)
        torch.testing.assert_close(here[name], value, rtol=rtol, atol=atol)
