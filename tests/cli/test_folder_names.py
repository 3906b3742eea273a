"""The output of commands does not depend on the name of the folder of a project."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import pytest
from tests.forked_python import PYTHON

pytest.importorskip("torch", reason="torch is not installed")  # the scripts need it
pytestmark = pytest.mark.timeout(900)  # each test runs several commands, one after another

PROJECT = Path(__file__).with_name("folders")
PLAIN = "plain"
#: Contains the names of all packages whose code ttools distinguishes from the user's, and
#: characters that need escaping: blanks, brackets (special to rich and glob), quotes, non-ASCII
#: characters.
ODD = "ttools/torch dev/triton/language/site-packages/torch/größe [red] it's (1)"
NAMES = ("ttools", "torch", "triton", "numpy", "site-packages", "dist-packages", "ttools/core")
VERIFY = (
    *("verify", "--cases", "2", "--seconds", "300", "--all-sizes-seconds", "60"),
    *("--reference", "candidate.py:reference"),
    *("--inputs", "candidate.py:inputs"),
)
#: Arguments of each command, which run in this order: some read what earlier ones wrote.
COMMANDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "interpret": (("interpret", "program.py"),),
    "refused": (("interpret", "refused.py"), ("interpret", "refused.py", "incomplete")),
    "eager": (("interpret", "--engine", "eager", "refused.py"),),
    "watch": (("interpret", "--watch", "offsets", "--programs", "2", "program.py"),),
    # Without -v, a finding has 12 rows of 80 columns, of which long paths take more.
    "sanitize": (("-v", "sanitize", "program.py"),),
    "json": (("sanitize", "--format", "json", "--output", "found.json", "program.py"),),
    "sarif": (("sanitize", "--format", "sarif", "--output", "found.json", "program.py"),),
    "junit": (("sanitize", "--format", "junit", "--output", "found.xml", "program.py"),),
    "baseline": (
        ("sanitize", "--baseline", "known.json", "--update-baseline", "program.py"),
        ("sanitize", "--baseline", "known.json", "program.py"),
    ),
    "sizes": (
        ("sanitize", "--sizes", "n=1:1000", "sized.py:run"),
        ("sanitize", "--sizes", "n=1:1000", "sized.py:unfollowed"),
    ),
    "all sizes": (("sanitize", "--all-sizes", "sized.py"),),
    "profile": (
        ("profile", "--gpu", "h100", "--no-line-times", "--lines", "program.py"),
        ("profile", "--no-line-times", "--context", "python", "--tree", "program.py"),
    ),
    "inspect": (("inspect", "--gpu", "sm_90", "program.py"),),
    "tune": (("tune", "tuned.py"),),
    "verify as junit": (
        (*VERIFY, "--format", "junit", "--output", "found.xml", "candidate.py:failing"),
    ),
    "verify": tuple((*VERIFY, f"candidate.py:{name}") for name in ("elsewhere", "failing")),
    "record": (
        ("record", "--output", "launches.tt", "program.py"),
        ("interpret", "launches.tt"),
        ("sanitize", "launches.tt"),
    ),
    "pytest": (("pytest", "-p", "no:cacheprovider", "--ttools-sanitize", "checked_by_pytest.py"),),
}
#: Commands that run in the default test run. The others run among the slow tests.
FEW = ("sanitize",)
#: Measured values differ between runs, and with them the width of columns.
MEASURED = re.compile(
    r"[-+]?\d[\d.,]*(?:e[-+]\d+)? ?(?:ns|us|ms|s\b|%|x\b)|time=\"[\d.]+\"|[\d,]+ bytes\n"
    r'|(?<="seconds": )[\d.e+-]+'
)
#: The seed of a verification, which a candidate must not be able to predict.
SEED = re.compile(r'(?<=hidden seed: )\d+|(?<="seed": )\d{9,}')
#: Digests of findings, which depend on the file's path.
DIGEST = re.compile(r"\b[0-9a-f]{16,64}\b")


def output_of(folder: Path, words: tuple[str, ...], cwd: Path, name: str) -> str:
    """Return status, streams and written file of a command, with the project's folder replaced."""
    module = "ttools_entry"
    if words[0] == "pytest":
        module, words = words[0], words[1:]
    environment = {**os.environ, "COLUMNS": "300", "PYTHONHASHSEED": "0"}
    result = PYTHON.run(["-m", module, *words], cwd=cwd, env=environment, timeout=600)
    text = f"{result.returncode}\n{result.stdout}\n{result.stderr}"
    for file in sorted(cwd.glob("found.*")):
        written = file.read_text("utf-8")
        if file.suffix == ".json":
            written = unquote(json.dumps(json.loads(written), ensure_ascii=False, indent=1))
        text += written
        file.unlink()
    text = text.replace(f"{folder}\n", "FOLDER/\n")
    for path in (f"{folder}/", f"{folder.resolve()}/"):
        # A line may be wrapped at a space in the path.
        text = re.sub(re.escape(path).replace(r"\ ", r"\s+"), "FOLDER/", text)
    # Replace the folder only if the path begins with it.
    text = re.sub(rf"(?<![^\s\"'(=`]){re.escape(name)}/", "FOLDER/", text)
    text = DIGEST.sub("DIGEST", SEED.sub("#", MEASURED.sub("#", text)))
    if "profile" not in words:  # lines are wrapped after the paths are inserted
        return re.sub(r"[\s─=-]+", " ", text)
    # The rows of a profile are sorted by measured times.
    return "\n".join(sorted(re.sub(r"[ ─=-]+", " ", text).splitlines()))


def project(place: Path, name: str) -> Path:
    folder = place / name
    shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def compared(folder: Path, plain: Path, name: str, command: str, *, inside: bool) -> None:
    """Compare the output of a command on a project in a folder and on the same in a plain folder.

    Args:
        inside: If True, the command runs in the project's folder, otherwise in its parent.
    """
    for words in COMMANDS[command]:
        expected, actual = (
            output_of(
                project_folder,
                _placed(words, each_name, inside),
                project_folder if inside else above,
                each_name,
            )
            for project_folder, each_name, above in (
                (plain, PLAIN, plain.parent),
                (folder, name, Path(str(folder).removesuffix(name))),
            )
        )
        assert actual == expected


def _placed(words: tuple[str, ...], name: str, inside: bool) -> tuple[str, ...]:
    """Return the arguments with the project's folder prepended to its files."""
    if inside:
        return words
    return tuple(f"{name}/{word}" if re.match(r"\w+\.py\b", word) else word for word in words)


@pytest.mark.parametrize(
    "command",
    [pytest.param(name, marks=() if name in FEW else pytest.mark.slow) for name in COMMANDS],
)
def test_a_folder_named_like_those_of_packages(tmp_path: Path, command: str) -> None:
    plain, odd = project(tmp_path, PLAIN), project(tmp_path / "parent", ODD)
    compared(odd, plain, ODD, command, inside=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_beside_a_folder_called_like_a_package(tmp_path: Path, name: str) -> None:
    """Run in the parent folder, where Python first looks for packages like `ttools` and `torch`."""
    plain, other = project(tmp_path, PLAIN), project(tmp_path / "parent", name)
    for command in ("sanitize", "refused"):
        compared(other, plain, name, command, inside=False)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", NAMES)
def test_every_command_in_every_folder(tmp_path: Path, name: str, command: str) -> None:
    plain, other = project(tmp_path, PLAIN), project(tmp_path / "parent", name)
    compared(other, plain, name, command, inside=True)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("steps/../triton", "sanitize"),
        pytest.param("torch", "sanitize", marks=pytest.mark.slow),
        pytest.param("steps/../triton", "verify", marks=pytest.mark.slow),
        pytest.param("torch", "verify", marks=pytest.mark.slow),
    ],
)
def test_paths_through_links_and_parent_folders(tmp_path: Path, name: str, command: str) -> None:
    plain, real = project(tmp_path, PLAIN), project(tmp_path / "ttools", "site-packages")
    (tmp_path / "parent" / "steps").mkdir(parents=True)
    link = tmp_path / "parent" / Path(name).name
    link.symlink_to(real)
    compared(tmp_path / "parent" / name, plain, name, command, inside=False)
