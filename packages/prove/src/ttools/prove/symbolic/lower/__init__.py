"""Rules for operations that no declaration in `ttools.ir` describes.

Importing this package registers the rules.
"""

import ttools.prove.symbolic.lower.casts
import ttools.prove.symbolic.lower.reduce  # noqa: F401
