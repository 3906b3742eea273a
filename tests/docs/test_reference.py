"""Tables in the reference agree with the code: kinds of findings, severities, options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer
import typer.core

from ttools.cli.app import app
from ttools.core.findings.suppressions import CHECK, KINDS
from ttools.core.gpus.launch_rules import rules_table
from ttools.profiler.metrics import reference_text
from ttools.sanitizer.checks.registry import CHECKS, default_checks, kinds, kinds_table, rules
from ttools.tuner.configs.entries import RULES as file_rules

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


def test_every_kind_is_described() -> None:
    text = (REFERENCE / "findings.md").read_text()
    own = "".join(f"| `{k}` | `{CHECK}` | note | {means} |\n" for k, means in KINDS.items())
    assert kinds_table() + own in text
    rows = re.findall(r"^\| `(\w+)` \| `?\w+`? \| \w+ \|", text, re.M)
    assert set(rows) == {*kinds(), *KINDS}


def test_every_rule_has_a_part_of_the_documentation() -> None:
    for rule in rules().values():
        page, _, anchor = rule.page.partition("#")
        headings = re.findall(r"^#+ (.*)$", (REFERENCE.parent / page).read_text().lower(), re.M)
        anchors = [re.sub(r"[^\w -]", "", heading).replace(" ", "-") for heading in headings]
        assert not anchor or anchor in anchors, rule.page


def test_every_kind_of_configuration_files_is_described() -> None:
    rules = file_rules.values()
    assert {rule.page for rule in rules} == {"reference/tune.md#check-configuration-files"}
    text = (REFERENCE / "tune.md").read_text().partition("## Check configuration files")[2]
    assert set(re.findall(r"`(config_\w+)`", text.partition("\n## ")[0])) == set(file_rules)


def test_the_table_of_launch_rules_agrees_with_the_code() -> None:
    assert rules_table() in (REFERENCE / "launch_rules.md").read_text()


def test_metrics_agree_with_the_code(pytestconfig: pytest.Config) -> None:
    page = REFERENCE / "metrics.md"
    text = page.read_text()
    own = text[text.index("## ") :]
    if pytestconfig.getoption("--update-goldens"):
        page.write_text(text.replace(own, reference_text()))
        return
    assert own == reference_text()


def test_every_option_of_sanitize_is_described() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    sanitize = group.commands["sanitize"]
    text = (REFERENCE / "cli.md").read_text().partition("## sanitize")[2].partition("\n## ")[0]
    options = {name for parameter in sanitize.params for name in parameter.opts}
    described = set(re.findall(r"(--[a-z][a-z-]+)", text))
    assert {name for name in options if name.startswith("--")} - {"--help"} <= described
    assert described <= options | {"--grid", "--arg"}


def test_the_option_check_lists_every_check() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    (option,) = (p for p in group.commands["sanitize"].params if "--check" in p.opts)
    assert isinstance(option, typer.core.TyperOption)
    (row,) = re.findall(
        r"^\| `--check CHECKS` \| (.*) \|$", (REFERENCE / "cli.md").read_text(), re.M
    )
    only_asked_for = CHECKS.keys() - default_checks()
    assert set(re.findall(r"`(\w+)`", row)) >= {*CHECKS, "all", "default"}
    assert f"(all but {', '.join(f'`{name}`' for name in sorted(only_asked_for))})" in row
    assert set(re.findall(r"\w+", option.help or "")) >= {*CHECKS, "all", "default"}
    text = (REFERENCE / "findings.md").read_text()
    assert all(f"`{name}` runs only if you select it" in text for name in only_asked_for)


def test_every_option_of_tune_is_described() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    options = {name for parameter in group.commands["tune"].params for name in parameter.opts}
    options |= {"--program", "--fail-on"}  # options of `tune check`
    described = set(re.findall(r"`(--[a-z][a-z-]+)", (REFERENCE / "tune.md").read_text()))
    described -= {"--all-configs"}  # an option of `sanitize`
    options -= {"--device", "--target"}  # former names of `--gpu`
    assert described == {name for name in options if name.startswith("--")}


def test_every_option_of_prove_is_described() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, typer.core.TyperGroup)
    text = (REFERENCE / "cli.md").read_text().partition("## prove")[2].partition("\n## ")[0]
    options = {name for parameter in group.commands["prove"].params for name in parameter.opts}
    described = set(re.findall(r"(--[a-z][a-z-]+)", text))
    assert described == {name for name in options if name.startswith("--")}
