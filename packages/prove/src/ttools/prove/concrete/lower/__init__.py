"""Rules for operations, one file per family; importing this registers all of them."""

import ttools.prove.concrete.lower.bits
import ttools.prove.concrete.lower.casts
import ttools.prove.concrete.lower.integer
import ttools.prove.concrete.lower.program
import ttools.prove.concrete.lower.reduce
import ttools.prove.concrete.lower.shape  # noqa: F401
