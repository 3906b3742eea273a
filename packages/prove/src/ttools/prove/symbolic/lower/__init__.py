"""Rules for operations, one file per family; importing this registers all of them."""

import ttools.prove.symbolic.lower.bits
import ttools.prove.symbolic.lower.casts
import ttools.prove.symbolic.lower.integer
import ttools.prove.symbolic.lower.program
import ttools.prove.symbolic.lower.shape  # noqa: F401
