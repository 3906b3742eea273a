"""Tables of reports in GitHub's Markdown."""

from __future__ import annotations

from rich.text import Text
from rich.tree import Tree

from ttools.cli.console import new_table
from ttools.cli.markdown import fenced, markdown


def test_numbers_are_aligned_right_and_empty_columns_omitted() -> None:
    table = new_table("Kernels", ("kernel", "config"), ("time", "share"))
    table.add_row("scale_kernel", "", "1.0 ms", "50%")
    table.add_row("a|b", "", "2.0 ms", "")
    table.caption = "[red] two lines\nof it"
    assert markdown([table]) == (
        "**Kernels**\n\n"
        "| kernel | time | share |\n"
        "| --- | ---: | ---: |\n"
        "| scale\\_kernel | 1.0 ms | 50% |\n"
        "| a\\|b | 2.0 ms |  |\n"
        "\n"
        "\\[red\\] two lines  \n"
        "of it  \n"
    )


def test_a_table_without_rows_has_a_header() -> None:
    assert markdown([new_table(None, ("kernel",), ())]) == "| kernel |\n| --- |\n"


def test_trees_and_code_are_fenced() -> None:
    tree = Tree(Text("step ```x```"))
    tree.add(Text("inner"))
    assert markdown([tree]) == "````\nstep ```x```\n└── inner\n````\n"
    assert fenced("x = 1\n") == "```python\nx = 1\n```\n"
    assert fenced("") == ""
