"""Rules for what no declaration in `ttools.ir` describes; importing this registers all of them."""

import ttools.prove.concrete.lower.casts
import ttools.prove.concrete.lower.reduce  # noqa: F401
