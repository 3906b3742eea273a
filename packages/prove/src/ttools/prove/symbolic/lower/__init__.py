"""Rules for what no declaration in `ttools.ir` describes; importing this registers all of them."""

import ttools.prove.symbolic.lower.casts
import ttools.prove.symbolic.lower.reduce  # noqa: F401
