"""Tests of importing Triton and launching kernels with the plugin, in separate processes."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.forked_python import PYTHON

LAUNCH = """
import torch
import triton

from tests_kernels import add_kernel

x, out = torch.ones(8), torch.zeros(8)
"""


def run_python(
    code: str, tmp_path: Path, *, imports: bool = True, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run code as a script, which can import the kernels of these tests from `tests_kernels`.

    Args:
        code: Text of the script.
        tmp_path: Folder of the script.
        imports: If False, the process has imported torch and Triton already, which is faster.
        environment: Additional environment variables.
    """
    if "import torch" in code:
        pytest.importorskip("torch", reason="torch is not installed")
    kernels = Path(__file__).with_name("plugin_kernels.py").read_text()
    (tmp_path / "tests_kernels.py").write_text(kernels)
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(code))
    if not imports:
        return PYTHON.run([str(script)], env={**os.environ, **environment})
    return subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **environment},
    )


def no_gpu() -> dict[str, str]:
    """Return environment variables that hide the GPU of a machine that has one."""
    import torch

    return {"CUDA_VISIBLE_DEVICES": ""} if torch.cuda.is_available() else {}


def break_llvmlite(tmp_path: Path) -> str:
    """Create a folder for PYTHONPATH with an llvmlite that cannot be imported."""
    package = tmp_path / "broken" / "llvmlite"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('built for another machine')\n")
    return str(package.parent)


def test_triton_finds_the_backend_classes() -> None:
    from triton.backends import backends

    from ttools.interpreter.backend.compiler import CPUBackend
    from ttools.interpreter.backend.driver import CPUDriver

    assert backends["cpu"].compiler is CPUBackend
    assert backends["cpu"].driver is CPUDriver


def test_importing_triton_does_not_import_the_engine(tmp_path: Path) -> None:
    code = """
    import sys
    import triton
    import ttools.interpreter.backend.compiler, ttools.interpreter.backend.driver

    ours = sorted(name for name in sys.modules if name.startswith("ttools."))
    print(ours)
    assert "llvmlite" not in sys.modules
    """
    completed = run_python(code, tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert "ttools.interpreter.native.jit" not in completed.stdout
    assert "ttools.interpreter.backend.launcher" not in completed.stdout


@pytest.mark.usefixtures("cpu_is_default")
@pytest.mark.smoke
def test_a_broken_llvmlite_is_reported_at_the_first_launch(tmp_path: Path) -> None:
    code = """
    add_kernel.warmup(x, x, out, 8, BLOCK=8, grid=(1,))
    print("compiled")
    add_kernel[(1,)](x, x, out, 8, BLOCK=8)
    """
    path = break_llvmlite(tmp_path)
    completed = run_python(LAUNCH + textwrap.dedent(code), tmp_path, PYTHONPATH=path)
    assert "compiled" in completed.stdout, completed.stderr
    assert completed.returncode == 1
    assert "llvmlite" in completed.stderr
    assert "built for another machine" in completed.stderr
    assert "reinstall" in completed.stderr


def test_off_disables_the_driver(tmp_path: Path) -> None:
    code = """
    import triton
    try:
        triton.runtime.driver.active
    except RuntimeError as error:
        print(error)
    """
    completed = run_python(code, tmp_path, TTOOLS_BACKEND="off", CUDA_VISIBLE_DEVICES="")
    assert "0 active drivers" in completed.stdout, completed.stderr


def test_interpret_works_while_the_plugin_is_off(tmp_path: Path) -> None:
    code = """
    from ttools.interpreter import interpret
    with interpret() as run:
        add_kernel[(1,)](x, x, out, 8, BLOCK=8)
    print(out.sum().item(), run.stats[0].launches)
    try:
        triton.runtime.driver.active
    except RuntimeError as error:
        print(error)
    """
    completed = run_python(
        LAUNCH + textwrap.dedent(code), tmp_path, imports=False, TTOOLS_BACKEND="off", **no_gpu()
    )
    assert "16.0 1" in completed.stdout, completed.stderr
    assert "0 active drivers" in completed.stdout


@pytest.mark.parametrize(("quiet", "lines"), [("", 1), ("1", 0)])
def test_an_implicit_launch_is_announced_once(tmp_path: Path, quiet: str, lines: int) -> None:
    code = """
    for _ in range(3):
        add_kernel[(1,)](x, x, out, 8, BLOCK=8)
    """
    completed = run_python(
        LAUNCH + textwrap.dedent(code), tmp_path, imports=False, TTOOLS_QUIET=quiet, **no_gpu()
    )
    assert completed.returncode == 0, completed.stderr
    assert completed.stderr.count("Triton kernels run on the CPU") == lines


def test_triton_interpret_set_before_the_import_is_replaced(tmp_path: Path) -> None:
    code = """
    import torch
    from ttools.interpreter import interpret

    with interpret() as run:
        from tests_kernels import add_kernel
        x, out = torch.ones(8), torch.zeros(8)
        add_kernel[(1,)](x, x, out, 8, BLOCK=8)
    print(out.sum().item(), run.stats[0].kernel, run.warnings)
    """
    completed = run_python(code, tmp_path, TRITON_INTERPRET="1")
    assert "16.0 add_kernel ['TRITON_INTERPRET is set" in completed.stdout, completed.stderr


def test_triton_imported_as_an_interpreter_is_an_error(tmp_path: Path) -> None:
    code = """
    from ttools.core.errors import UsageError
    from ttools.interpreter import interpret
    try:
        with interpret():
            pass
    except UsageError as error:
        print(error)
    """
    completed = run_python(LAUNCH + textwrap.dedent(code), tmp_path, TRITON_INTERPRET="1")
    assert "unset TRITON_INTERPRET" in completed.stdout, completed.stderr


def test_a_kernel_decorated_for_the_interpreter_is_an_error(tmp_path: Path) -> None:
    code = """
    import os
    import torch, triton
    os.environ["TRITON_INTERPRET"] = "1"
    from tests_kernels import add_kernel
    from ttools.core.errors import UsageError
    from ttools.interpreter import interpret
    x, out = torch.ones(8), torch.zeros(8)
    with interpret():
        try:
            add_kernel[(1,)](x, x, out, 8, BLOCK=8)
        except UsageError as error:
            print(error)
    """
    completed = run_python(code, tmp_path, imports=False)
    assert "kernel `add_kernel` was decorated while TRITON_INTERPRET was set" in completed.stdout, (
        completed.stderr
    )


@pytest.mark.usefixtures("cpu_is_default")
def test_two_files_with_the_same_kernel_keep_their_own_locations(tmp_path: Path) -> None:
    code = """
    import torch
    import first, second

    x = torch.zeros(8)
    for module in (first, second):
        kernel = module.fill_kernel[(1,)](x, 1.0, BLOCK=8)
        text = kernel.asm["ttir"]
        other = "second.py" if module is first else "first.py"
        assert f"{module.__name__}.py" in text and other not in text, text
    print("kept")
    """
    kernels = Path(__file__).with_name("plugin_kernels.py").read_text()
    for name in ("first.py", "second.py"):
        (tmp_path / name).write_text(kernels)
    cache = str(tmp_path / "cache")
    completed = run_python(code, tmp_path, imports=False, TRITON_CACHE_DIR=cache)
    assert "kept" in completed.stdout, completed.stderr
