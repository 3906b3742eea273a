"""Control flow, which a walk over a kernel goes on at by methods of its own."""

from __future__ import annotations

from ttools.interpreter.ir import Operation

#: Which method of a walk goes on: at an operation whose regions are code of the kernel, or at the
#: last one of a block; none where nothing comes after it.
_METHODS = {
    "scf.for": "counted_loop",
    "scf.while": "loop",
    "scf.if": "branch",
    "cf.br": "enter",
    "cf.cond_br": "enter_either",
    "tt.return": None,
    "ub.unreachable": None,
}


def goes_on(walk: object, op: Operation) -> bool:
    """Has a walk run an operation if it is control flow; whether it is."""
    method = _METHODS.get(op.name)
    if method is not None:
        getattr(walk, method)(op)
    return op.name in _METHODS
