"""Pages that need no network, as jinja templates with their style and script beside them.

Owns how every page's markup is rendered and how data gets into its script. Must not know any page.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

#: What all pages extend and include: `base.html.jinja` and `base.css`.
_STYLE = Path(__file__).parent / "style"


@lru_cache(maxsize=8)
def page_template(folder: Path) -> Template:
    """The template `page.html.jinja` of a folder, which extends `base.html.jinja`.

    The folder has a `page.css`, too, and whatever else its template includes.
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
    """JSON that may stand in a script element: nothing in it ends the element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
