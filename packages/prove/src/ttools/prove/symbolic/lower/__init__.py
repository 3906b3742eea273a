"""Rules for operations that no declaration in `ttools.ir` describes; the import registers them."""

import ttools.prove.symbolic.lower.casts
import ttools.prove.symbolic.lower.reduce  # noqa: F401
