"""Rules for operations, one file per family; importing this registers all of them."""

import ttools.sanitizer.sizes.symbolic.lower.bits
import ttools.sanitizer.sizes.symbolic.lower.casts
import ttools.sanitizer.sizes.symbolic.lower.integer
import ttools.sanitizer.sizes.symbolic.lower.program
import ttools.sanitizer.sizes.symbolic.lower.shape  # noqa: F401
