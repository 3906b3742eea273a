"""Insertion of a `ttools.watch` operation after every assignment of the watched variables.

These operations are not entered in the use lists of values. The schedule therefore does not depend
on them, and a watched kernel computes the same results as an unwatched kernel.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ttools.interpreter.analysis.effects import Provenance
from ttools.interpreter.analysis.lane_swap import is_part_of_swap
from ttools.interpreter.emit.instruments.probe import WATCH
from ttools.ir import Module, Operation, PointerType, element_type
from ttools.ir.rewriting import Rewriter
from ttools.watch.variables.variables import Variable, stored_by


def insert_watches(module: Module, variables: Sequence[Variable]) -> None:
    """Rewrite a module in place.

    Args:
        module: The module in which the variables were found.
    """
    provenance = Provenance(module.kernel)
    rewriter = Rewriter()
    added: list[Operation] = []
    for variable in variables:
        if variable.operation is None:
            b = rewriter.start(variable.block, variable.location)
        elif variable.name == stored_by(variable.operation):
            b = rewriter.before(variable.operation)
        else:
            b = rewriter.after(variable.operation)
        operands = [variable.value, *([] if variable.mask is None else [variable.mask])]
        text = json.dumps(_described(variable, provenance))
        added.append(b.operation(WATCH, operands, attributes={"text": text}))
        added[-1].location = variable.location
    rewriter.apply()
    for op in added:
        _hide(op)


def _hide(op: Operation) -> None:
    for index, value in enumerate(op.operands):
        # A swap of neighbouring lanes (`lane_swap`) is compiled without its intermediate results,
        # unless they have further uses. The watch of such a result therefore stays in the result's
        # use list, so that the result is computed.
        if not is_part_of_swap(value):
            value.uses.remove((op, index))


def _described(variable: Variable, provenance: Provenance) -> dict[str, object]:
    """Return data of a variable that the recorder needs in addition to the type and shape."""
    fields: dict[str, object] = {"name": variable.name, "filled": variable.is_filled}
    if isinstance(element_type(variable.value.type), PointerType):
        sources = provenance.of(variable.value)
        (source,) = sources if len(sources) == 1 else (None,)
        fields["parameter"] = -1 if source is None else source
    return fields
