"""The skill for coding assistants: its front matter, and its commands as an assistant runs them."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import typer.core
import yaml

from ttools.cli.app import app

SKILL = Path(__file__).parents[2] / "skills" / "ttools" / "SKILL.md"
TEXT = SKILL.read_text("utf-8")
COMMANDS = "".join(re.findall(r"^```sh\n(.*?)^```", TEXT, re.M | re.S)).splitlines()
(SCRIPT,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)
#: Fields that the text names, by command.
FIELDS = {
    "sanitize": {"schema", "summary", "findings"},
    "prove": {"schema", "summary", "findings"},
    "verify": {"schema", "verdict"},
    "profile": {"schema", "kernels", "advice"},
    "tune": {"schema", "problems"},
    "check": {"schema", "summary", "findings"},
    "inspect": {"schema"},
}


def test_front_matter_has_a_name_and_a_description() -> None:
    front = yaml.safe_load(TEXT.split("---\n")[1])
    assert front["name"] == SKILL.parent.name == "ttools"
    assert 40 < len(front["description"]) <= 1024
    assert len(TEXT.splitlines()) < 200
    assert len(re.findall(r"^## \d\. ", TEXT, re.M)) == 6


@pytest.mark.parametrize("typed", COMMANDS)
def test_commands_and_options_exist(typed: str) -> None:
    program, *words = shlex.split(typed)
    assert program == "ttools"
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    name = " ".join(words[:2]) if " ".join(words[:2]) in group.commands else words[0]
    options = {option for parameter in group.commands[name].params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= options


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("project")
    (folder / "script.py").write_text(SCRIPT)
    (folder / "configs").mkdir()
    config = {"BLOCK_SIZE_M": 16, "num_warps": 4, "num_stages": 3}
    name = "E=8,N=512,device_name=NVIDIA_H100_80GB_HBM3.json"
    (folder / "configs" / name).write_text(json.dumps({"1": config}))
    return folder


def run(typed: str, folder: Path) -> subprocess.CompletedProcess[str]:
    words = shlex.split(typed)[1:]
    return subprocess.run(
        [sys.executable, "-m", "ttools_entry", *words],
        cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("typed", COMMANDS)
def test_commands_succeed_on_a_correct_kernel(typed: str, project: Path) -> None:
    if typed.endswith(".tt"):
        run("ttools record --output launches.tt script.py", project)
    result = run(typed, project)
    assert result.returncode == 0, f"{typed}\n{result.stdout}{result.stderr}"
    command = "check" if " check " in typed else shlex.split(typed)[1]
    if command != "record":
        data: dict[str, Any] = json.loads(result.stdout)
        assert set(data) >= FIELDS[command]
        assert data.get("verdict") in (None, "pass")
        assert not data.get("findings")


@pytest.mark.slow
def test_the_edit_of_a_finding_corrects_the_kernel(project: Path) -> None:
    """An assistant applies the edit as the text describes it, and runs the command again."""
    wrong = project / "wrong.py"
    wrong.write_text(SCRIPT.replace("2 * x, mask=offs < n)", "2 * x)"))
    command = "ttools sanitize --format brief wrong.py"
    result = run(command, project)
    assert result.returncode == 1, result.stderr
    (text,) = (f["edit"] for f in json.loads(result.stdout)["findings"] if "edit" in f)
    edit = re.fullmatch(r"insert `(.+)` at (\d+):(\d+)", text)
    assert edit is not None
    lines = wrong.read_text().splitlines(keepends=True)
    number, column = int(edit[2]) - 1, int(edit[3]) - 1
    lines[number] = lines[number][:column] + edit[1] + lines[number][column:]
    wrong.write_text("".join(lines))
    assert wrong.read_text() == SCRIPT
    assert run(command, project).returncode == 0
