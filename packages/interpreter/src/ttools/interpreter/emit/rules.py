"""Imports all files that register rules of the emitter in `FUSED` and `ROOTS`."""

import ttools.interpreter.emit.instruments.inserted_operations
import ttools.interpreter.emit.lower.atomic
import ttools.interpreter.emit.lower.call
import ttools.interpreter.emit.lower.control
import ttools.interpreter.emit.lower.dot
import ttools.interpreter.emit.lower.dot_scaled
import ttools.interpreter.emit.lower.gather
import ttools.interpreter.emit.lower.index
import ttools.interpreter.emit.lower.memory
import ttools.interpreter.emit.lower.program
import ttools.interpreter.emit.lower.reduce
import ttools.interpreter.emit.lower.shape
import ttools.interpreter.emit.lower.sorting  # noqa: F401
