"""Renders self-contained HTML pages from jinja templates with their style and script."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

#: The folder of `base.html.jinja` and `base.css`, which all pages extend and include.
_STYLE = Path(__file__).parent / "style"


@lru_cache(maxsize=8)
def page_template(folder: Path) -> Template:
    """Return the template `page.html.jinja` of a folder, which extends `base.html.jinja`.

    The folder also has a `page.css` and any other files that the template includes.
    """
    environment = Environment(
        loader=FileSystemLoader([folder, _STYLE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.jinja")


def script_json(data: object) -> Markup:
    """Return JSON for a script element, escaped so that it cannot end the element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
