"""Rules for operations that no declaration in `ttools.ir` describes.

Importing this package registers the rules.
"""

import ttools.prove.concrete.lower.casts
import ttools.prove.concrete.lower.reduce  # noqa: F401
