"""Rules for operations, one file per family; importing this registers all of them."""

import ttools.sanitizer.sizes.concrete.lower.bits
import ttools.sanitizer.sizes.concrete.lower.casts
import ttools.sanitizer.sizes.concrete.lower.integer
import ttools.sanitizer.sizes.concrete.lower.program
import ttools.sanitizer.sizes.concrete.lower.reduce
import ttools.sanitizer.sizes.concrete.lower.shape  # noqa: F401
