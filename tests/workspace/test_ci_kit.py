"""The action, the workflows and the hooks are well formed, and their steps work.

Steps are run as a runner does: by bash, in a project's folder, with the variables of their `env:`
and files for outputs. Steps that use other actions are only checked for their form.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ttools.cli.annotate import workflow_commands

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TESTS = """\
import torch, triton, triton.language as tl
@triton.jit
def fill(x_ptr, n):
    tl.store(x_ptr + tl.arange(0, 8), 1.0, mask=tl.arange(0, 8) < n)
def test_fill():
    fill[(1,)](torch.empty(7), SIZE)
"""
_INPUT = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


ACTION = read(ROOT / "action.yml")


def steps_of(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_action_is_well_formed() -> None:
    assert {"name", "description", "inputs", "runs"} <= ACTION.keys()
    assert ACTION["runs"]["using"] == "composite"
    for value in ACTION["inputs"].values():
        assert isinstance(value["default"], str)
        assert value["description"].endswith(".")
    named = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text()))
    assert named == set(ACTION["inputs"])
    for step in ACTION["runs"]["steps"]:
        assert ("run" in step) != ("uses" in step)
        assert "uses" in step or step["shell"] == "bash"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_are_well_formed(path: Path) -> None:
    workflow = read(path)
    assert {"name", True, "permissions", "jobs"} <= workflow.keys()  # YAML reads `on` as true
    for job in workflow["jobs"].values():
        assert job["runs-on"]
        assert set(job.get("needs", "").split()) <= set(workflow["jobs"])
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    for step in steps_of(workflow):
        assert ("run" in step) != ("uses" in step)
        for command in re.findall(r"^make (.+)$", step.get("run", ""), re.M):
            assert set(command.split()) <= targets
        for module in re.findall(r"python -m (tools\.\w+)", step.get("run", "")):
            assert (ROOT / f"{module.replace('.', '/')}.py").is_file()


@pytest.mark.parametrize("path", [ROOT / "action.yml", *WORKFLOWS], ids=lambda path: path.stem)
def test_no_expression_becomes_code_of_a_shell(path: Path) -> None:
    content = read(path)
    steps = content["runs"]["steps"] if "runs" in content else steps_of(content)
    assert [step["run"] for step in steps if "${{" in step.get("run", "")] == []


def run_steps(folder: Path, given: dict[str, str]) -> list[subprocess.CompletedProcess[str]]:
    """Run the steps of the action after the installation, including those with `if: always()`."""
    inputs = {name: value["default"] for name, value in ACTION["inputs"].items()} | given
    assert given.keys() <= ACTION["inputs"].keys()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = []
    for step in ACTION["runs"]["steps"][1:]:
        if "run" not in step:
            continue
        own = {
            name: _INPUT.sub(lambda outcome: inputs[outcome[1]], text)
            for name, text in step["env"].items()
        }
        variables = {**os.environ, **own, "PATH": path, "GITHUB_OUTPUT": str(folder / "output")}
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]]
        result.append(
            subprocess.run(
                command, cwd=folder, env=variables, capture_output=True, text=True, check=False
            )
        )
    return result


@pytest.mark.slow
def test_steps_of_the_action(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    test = tmp_path / "tests" / "test_fill.py"
    test.write_text(TESTS.replace("SIZE", "8"))
    sanitized, annotated = run_steps(tmp_path, {})
    assert sanitized.returncode == 1, sanitized.stderr
    assert (tmp_path / "output").read_text() == "sarif=ttools.sarif\n"
    assert json.loads((tmp_path / "ttools.sarif").read_text())["version"] == "2.1.0"
    assert annotated.returncode == 0, annotated.stderr
    (line,) = annotated.stdout.splitlines()
    assert line.startswith("::error file=tests/test_fill.py,line=4,title=ttools%3A oob_store::")

    line_of_source = TESTS.splitlines()[3].strip()
    finding = {"kind": "oob_store", "kernel": "fill", "source": line_of_source, "count": 1}
    baseline = {"schema": "ttools.baseline/1", "findings": [finding]}
    (tmp_path / "known.json").write_text(json.dumps(baseline))
    inputs = {"baseline": "known.json", "pytest-args": "-q -x"}
    sanitized, annotated = run_steps(tmp_path, inputs)
    assert sanitized.returncode == 0, sanitized.stdout
    assert annotated.stdout == ""


def test_annotations_escape_special_characters() -> None:
    result = {
        "ruleId": "race",
        "level": "note",
        "message": {"text": "100%\nmore"},
        "locations": [{"physicalLocation": {"artifactLocation": {"uri": "a%20b,c.py"}}}],
    }
    log = {"runs": [{"results": [result, {**result, "suppressions": [{"kind": "external"}]}]}]}
    assert list(workflow_commands(log)) == [
        "::notice file=a b%2Cc.py,title=ttools%3A race::100%25%0Amore"
    ]


def test_hooks_run_commands_that_exist() -> None:
    hooks = {hook["id"]: hook for hook in read(ROOT / ".pre-commit-hooks.yaml")}
    for hook in hooks.values():
        assert {"id", "name", "entry", "language"} <= hook.keys()
        words = shlex.split(hook["entry"])
        help_command = [sys.executable, *words[1:], "--help"]
        result = subprocess.run(help_command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
    for hook in hooks.values():  # a changed kernel concerns tests in other files
        assert hook["types"] == ["python"]
        assert "files" not in hook
        assert not hook["pass_filenames"]
    page = (ROOT / "docs" / "ci.md").read_text()
    assert set(re.findall(r"- id: ([\w-]+)", page)) == set(hooks)


def test_yaml_on_the_page_uses_existing_names() -> None:
    page = (ROOT / "docs" / "ci.md").read_text()
    blocks = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)]
    assert len(blocks) == 3
    used = blocks[0]["jobs"]["kernels"]["steps"][-1]["with"]
    assert used.keys() <= ACTION["inputs"].keys()
    for name in ACTION["inputs"]:
        assert f"`{name}`" in page
