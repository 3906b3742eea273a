"""What `import triton` and launches do with the plugin, each case in a process of its own."""

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
    """Runs code as a script file; the kernels of these tests are its module `tests_kernels`.

    Where it is not the `imports` that are tested, torch and Triton are imported already.
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
    """What hides a GPU, where there is one."""
    import torch

    return {"CUDA_VISIBLE_DEVICES": ""} if torch.cuda.is_available() else {}


def break_llvmlite(tmp_path: Path) -> str:
    """A folder for PYTHONPATH whose llvmlite cannot be imported."""
    package = tmp_path / "broken" / "llvmlite"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('built for another machine')\n")
    return str(package.parent)


def test_each_module_holds_one_concrete_class() -> None:
    from triton.backends import backends

    from ttools.interpreter.backend.compiler import CPUBackend
    from ttools.interpreter.backend.driver import CPUDriver

    assert backends["cpu"].compiler is CPUBackend
    assert backends["cpu"].driver is CPUDriver


def test_importing_triton_imports_nothing_heavy_of_ours(tmp_path: Path) -> None:
    code = """
    import sys
    import triton
    import ttools.interpreter.backend.compiler, ttools.interpreter.backend.driver

    ours = sorted(name for name in sys.modules if name.startswith("ttools."))
    print(ours)
    assert "llvmlite" not in sys.modules
    """
    done = run_python(code, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "ttools.interpreter.native.jit" not in done.stdout
    assert "ttools.interpreter.backend.launcher" not in done.stdout


@pytest.mark.usefixtures("cpu_is_default")
@pytest.mark.smoke
def test_a_broken_llvmlite_breaks_no_import_and_names_itself_at_launch(tmp_path: Path) -> None:
    code = """
    add_kernel.warmup(x, x, out, 8, BLOCK=8, grid=(1,))
    print("compiled")
    add_kernel[(1,)](x, x, out, 8, BLOCK=8)
    """
    path = break_llvmlite(tmp_path)
    done = run_python(LAUNCH + textwrap.dedent(code), tmp_path, PYTHONPATH=path)
    assert "compiled" in done.stdout, done.stderr
    assert done.returncode == 1
    assert "llvmlite" in done.stderr
    assert "built for another machine" in done.stderr
    assert "reinstall" in done.stderr


def test_off_leaves_no_driver_where_there_is_no_gpu(tmp_path: Path) -> None:
    code = """
    import triton
    try:
        triton.runtime.driver.active
    except RuntimeError as error:
        print(error)
    """
    done = run_python(code, tmp_path, TTOOLS_BACKEND="off", CUDA_VISIBLE_DEVICES="")
    assert "0 active drivers" in done.stdout, done.stderr


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
    done = run_python(
        LAUNCH + textwrap.dedent(code), tmp_path, imports=False, TTOOLS_BACKEND="off", **no_gpu()
    )
    assert "16.0 1" in done.stdout, done.stderr
    assert "0 active drivers" in done.stdout


@pytest.mark.parametrize(("quiet", "lines"), [("", 1), ("1", 0)])
def test_an_implicit_launch_is_announced_once(tmp_path: Path, quiet: str, lines: int) -> None:
    code = """
    for _ in range(3):
        add_kernel[(1,)](x, x, out, 8, BLOCK=8)
    """
    done = run_python(
        LAUNCH + textwrap.dedent(code), tmp_path, imports=False, TTOOLS_QUIET=quiet, **no_gpu()
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Triton kernels run on the CPU") == lines


def test_triton_interpret_set_before_triton_is_imported_is_taken_over(tmp_path: Path) -> None:
    code = """
    import torch
    from ttools.interpreter import interpret

    with interpret() as run:
        from tests_kernels import add_kernel
        x, out = torch.ones(8), torch.zeros(8)
        add_kernel[(1,)](x, x, out, 8, BLOCK=8)
    print(out.sum().item(), run.stats[0].kernel, run.warnings)
    """
    done = run_python(code, tmp_path, TRITON_INTERPRET="1")
    assert "16.0 add_kernel ['TRITON_INTERPRET is set" in done.stdout, done.stderr


def test_triton_imported_as_an_interpreter_is_refused(tmp_path: Path) -> None:
    code = """
    from ttools.core.errors import UsageError
    from ttools.interpreter import interpret
    try:
        with interpret():
            pass
    except UsageError as error:
        print(error)
    """
    done = run_python(LAUNCH + textwrap.dedent(code), tmp_path, TRITON_INTERPRET="1")
    assert "unset TRITON_INTERPRET" in done.stdout, done.stderr


def test_a_kernel_decorated_for_the_interpreter_is_refused(tmp_path: Path) -> None:
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
    done = run_python(code, tmp_path, imports=False)
    assert "kernel `add_kernel` was decorated while TRITON_INTERPRET was set" in done.stdout, (
        done.stderr
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
    done = run_python(code, tmp_path, imports=False, TRITON_CACHE_DIR=cache)
    assert "kept" in done.stdout, done.stderr
