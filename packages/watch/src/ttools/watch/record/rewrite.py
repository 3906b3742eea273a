"""Puts a `ttools.watch` behind every assignment of the variables that are watched.

The schedule does not see these uses, so that a watched kernel computes as an unwatched one does.
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
    """Rewrites a module in place.

    Args:
        module: that the variables were found in.
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
        # Swaps of neighbours are recognised by their parts having no other users.
        if not is_part_of_swap(value):
            value.uses.remove((op, index))


def _described(variable: Variable, provenance: Provenance) -> dict[str, object]:
    """What the recorder has to know beside types and shapes."""
    fields: dict[str, object] = {"name": variable.name, "filled": variable.is_filled}
    if isinstance(element_type(variable.value.type), PointerType):
        sources = provenance.of(variable.value)
        (source,) = sources if len(sources) == 1 else (None,)
        fields["parameter"] = -1 if source is None else source
    return fields
