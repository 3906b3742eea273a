"""Tests that files belong to installed packages, regardless of the names of folders."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import re
import subprocess
import sys
import sysconfig
from collections import namedtuple
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import pytest

from ttools.core import ownership, patches
from ttools.core.ownership import (
    is_library_file,
    is_program_file,
    is_program_frame,
    is_triton_file,
    owner_of_class,
    owner_of_file,
    owner_of_frame,
    owner_of_function,
    owner_of_module,
    package_folders,
)

torch: Any = pytest.importorskip("torch", reason="torch is not installed")
triton: Any = pytest.importorskip("triton", reason="Triton is not installed")
tl = pytest.importorskip("triton.language")

PURELIB = Path(sysconfig.get_path("purelib"))
TRITON = Path(triton.__file__).parent
#: Folders of a user's project that have the name of a package, look like installed packages, or
#: contain special characters.
FOLDERS = (
    *("ttools", "torch", "triton", "numpy", "site-packages", "dist-packages", "ttools/core"),
    *("triton/language", "lib/python3.11/site-packages/torch", "packages/core/src/ttools/core"),
    *("torch dev", "[red]", "größe", "it's", '"quoted"', "a%b", "<string>"),
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_files_of_users_belong_to_them_in_any_folder(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(parents=True)
    for name in ("kernels.py", "standard.py", "__init__.py"):
        file = str(tmp_path / folder / name)
        for exists in (False, True):
            assert owner_of_file(file) == "user"
            assert is_program_file(file)
            assert not is_library_file(file)
            if exists or "language" not in folder:  # a missing file may come from another machine
                assert not is_triton_file(file)
            Path(file).touch()


@pytest.mark.parametrize(
    ("file", "owner"),
    [
        (ownership.__file__, "ttools"),
        (str(PURELIB / "liger_kernel" / "ops" / "torch" / "rope.py"), "installed"),
        (torch.__file__, "torch"),
        (str(Path(torch.__file__).with_name("_functorch") / "codegen(call)"), "torch"),
        (str(TRITON / "language" / "standard.py"), "triton"),
        (np.__file__, "numpy"),
        (os.__file__, "python"),
        (str(Path(os.__file__).parent / "json" / "decoder.py"), "python"),
        (f"{TRITON}_kernels/matmul.py", "installed"),  # a folder beside Triton's
        ("<string>", "user"),
        ("", "user"),
        ("a\0b.py", "user"),
        ("x" * 5000, "user"),
    ],
)
def test_files_of_packages(file: str, owner: str) -> None:
    assert owner_of_file(file) == owner
    assert is_library_file(file) == (owner != "user")


def test_every_package_of_the_namespace_is_found() -> None:
    folders = {Path(folder).name for folder in package_folders("ttools")}
    members = (Path(__file__).parents[2] / "packages").glob("*/src/ttools/*/__init__.py")
    assert {file.parent.name for file in members} | {"ttools_triton", "ttools_entry.py"} == folders


def test_symbolic_links_and_parent_folders_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "mine"
    link.symlink_to(TRITON)
    assert owner_of_file(str(link / "language" / "core.py")) == "triton"
    project = tmp_path / "project"
    project.mkdir()
    link = tmp_path / "triton"
    link.symlink_to(project)
    assert owner_of_file(str(link / "kernels.py")) == "user"
    assert owner_of_file(f"{TRITON}/../../../../kernels.py") != "triton"
    assert owner_of_file(f"{project}/../elsewhere/mine/testing.py") == "triton"


def test_a_package_whose_files_are_links_is_a_package(tmp_path: Path) -> None:
    """Test a package whose files are links to a cache, as some installers create them."""
    package, cache = tmp_path / "torch", tmp_path / "cache"
    package.mkdir()
    cache.mkdir()
    for name in ("__init__.py", "nn.py"):
        (cache / name).touch()
        (package / name).symlink_to(cache / name)
    question = (
        "import sys; sys.path.insert(0, sys.argv[1]); import torch;"
        "from ttools.core.ownership import owner_of_file as owner;"
        "print(owner(torch.__file__), owner(sys.argv[1] + '/torch/nn.py'))"
    )
    assert _answer(question, str(tmp_path), folder=tmp_path) == "torch torch"


@pytest.mark.parametrize("name", ["ttools", "triton", "torch"])
def test_a_folder_in_the_working_directory_is_not_a_package(tmp_path: Path, name: str) -> None:
    """Test a folder in the working directory, which Python imports as a namespace package."""
    (tmp_path / name / "core").mkdir(parents=True)
    question = (
        "import sys; from ttools.core.ownership import owner_of_file as owner;"
        f"print(*[owner(f'{{sys.argv[1]}}/{name}/{{each}}') for each in ('a.py', 'core/b.py')]);"
    )
    assert _answer(question, str(tmp_path), folder=tmp_path) == "user user"


def test_a_file_called_torch_belongs_to_the_user(tmp_path: Path) -> None:
    (tmp_path / "torch.py").touch()
    question = (
        "import sys; from ttools.core.ownership import owner_of_file as owner;"
        "asked = lambda: owner(f'{sys.argv[1]}/torch.py');"
        "before = asked(); sys.path.insert(0, sys.argv[1]); import torch; print(before, asked())"
    )
    assert _answer(question, str(tmp_path), folder=tmp_path) == "user user"


def _answer(question: str, *arguments: str, folder: Path) -> str:
    command = [sys.executable, "-c", question, *arguments]
    completed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return completed.stdout.strip()


# ---- frames, functions, classes, modules


def _frame(file: str, **scope: Any) -> FrameType:
    scope["frame"] = sys._getframe
    exec(compile("result = frame(0)", file, "exec"), scope)
    result = scope["result"]
    assert isinstance(result, FrameType)
    return result


@dataclasses.dataclass
class Generated:
    """A class whose generated `__init__` calls back into a method."""

    frame: Any = None

    def __post_init__(self) -> None:
        self.frame = sys._getframe(1)


Pair = namedtuple("Pair", "one two")


@pytest.mark.parametrize(
    ("frame", "owner", "is_program"),
    [
        (_frame("script.py", __name__="__main__"), "user", True),
        (_frame("<string>", __name__="__main__"), "user", True),
        (_frame("/x/triton/test_a.py", __name__="triton.test_a"), "user", True),
        (_frame("<string>"), "triton", False),  # a function that Triton makes to bind arguments
        (_frame("<eval_with_key>.7"), "torch", False),
        (_frame("<frozen runpy>", __name__="runpy"), "python", False),
        (_frame("<string>", __name__="ttools.core.patches"), "ttools", False),
        (_frame("<string>", __name__="x", __file__=patches.__file__), "ttools", False),
        (_frame("patches.py", __name__="x", __file__=patches.__file__), "ttools", False),
        (_frame("/tmp/x.py", __name__="torch._inductor.runtime.compile_tasks.c1"), "torch", False),
        (_frame(json.__file__, __name__="json"), "python", False),
        (Generated().frame, "user", True),
    ],
)
def test_frames(frame: FrameType, owner: str, is_program: bool) -> None:
    assert owner_of_frame(frame) == owner
    assert is_program_frame(frame) == is_program


def test_functions_classes_and_modules() -> None:
    assert owner_of_function(tl.sum) == "triton"
    assert owner_of_function(np.sum) == "numpy"
    assert owner_of_function(torch.add) == "torch"
    assert owner_of_function(len) == "python"
    assert owner_of_function(test_frames) == "user"
    assert owner_of_function(Pair.__new__) == "user"
    assert owner_of_class(torch.Tensor) == "torch"
    assert owner_of_class(Pair) == "user"
    modules = {"triton": tl, "python": sys, "torch": torch.nn, "user": ModuleType("torch.mine")}
    for owner, module in modules.items():
        assert owner_of_module(module) == owner
    assert owner_of_module(os) == owner_of_module(json) == "python"


def test_files_of_another_machine() -> None:
    for folder in ("/nowhere/lib/python3.10/site-packages", "C:\\venv\\Lib\\site-packages", "/x y"):
        assert is_triton_file(f"{folder}/triton/language/standard.py")
        assert not is_triton_file(f"{folder}/triton/language/softmax.py")
        assert not is_triton_file(f"{folder}/triton/kernels.py")
    assert not is_triton_file("/nowhere/triton/language/a\0b.py")


# ---- no other file decides by names of folders

_ROOT = Path(__file__).parents[2]
_NAMED = re.compile(r"/(ttools|torch|triton|numpy)/|site-packages|dist-packages")
_MODULE = re.compile(r"(torch|triton)\.")
#: The only file that may compare paths and names of modules with those of packages.
_ALLOWED = "packages/core/src/ttools/core/ownership.py"


def _comparisons(tree: ast.AST) -> Iterator[str]:
    """Yield the strings with which a file compares paths or names of modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
            yield from _texts(parts, _NAMED)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("startswith", "endswith", "partition", "rpartition", "split"):
                yield from _texts(node.args, _NAMED)
            if node.func.attr == "startswith":
                yield from _texts(node.args, _MODULE)
        elif isinstance(node, ast.GeneratorExp):
            yield from _texts([generator.iter for generator in node.generators], _NAMED)


def _texts(nodes: Sequence[ast.AST], pattern: re.Pattern[str]) -> Iterator[str]:
    for node in nodes:
        for child in ast.walk(node):
            value = child.value if isinstance(child, ast.Constant) else None
            if isinstance(value, str) and pattern.search(value):
                yield value


def test_no_other_file_decides_by_names_of_folders() -> None:
    files = [*_ROOT.glob("packages/*/src/**/*.py"), *_ROOT.glob("tools/**/*.py")]
    comparisons = {
        str(file.relative_to(_ROOT)): texts
        for file in files
        if (texts := list(_comparisons(ast.parse(file.read_text("utf-8")))))
    }
    assert comparisons.keys() - {_ALLOWED} == set(), comparisons
