"""Rules for operations that no declaration in `ttools.ir` describes; the import registers them."""

import ttools.prove.concrete.lower.casts
import ttools.prove.concrete.lower.reduce  # noqa: F401
