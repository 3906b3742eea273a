"""Plays accesses that acquire and release, and answers who knew what when: `native_clocks.c`.

Clocks are vectors of `WIDTH` numbers that only grow: one for each program and each word. An access
that acquires takes the larger numbers of its word's clock, one that releases gives them.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttools.core.once import once
from ttools.interpreter.native import jit
from ttools.interpreter.native.native_module import module_text, native_module

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Numbers in a clock: four cache lines, and four registers of AVX-512.
WIDTH = 64
#: Columns of a step; see `native_clocks.c`.
PROGRAM, READS, WRITES, KEY, VALUE, KEEPS, TAKES, COPIES = range(8)
STEP_COLUMNS = 8


def replay(
    steps: NDArray[Any],
    clocks: NDArray[Any],
    questions: NDArray[Any],
    needs: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Play steps in their order and return the answer to each question.

    Args:
        steps: One row of `STEP_COLUMNS` int32 for each access, contiguous; clocks are named by
            their row in `clocks`, and -1 stands for none.
        clocks: Rows of `WIDTH` int32, all zero. They are zero again afterwards.
        questions: Rows of three int32, the first ascending: a step; a number of its program's
            clock as it is after that step; a row of `needs`, or -1. Without such a row the answer
            is the number itself, else whether all numbers but this one (-1: all) are at least
            those of the row.
        needs: Rows of `WIDTH` int32.
    """
    import numpy as np

    answers = np.empty(len(questions), np.int32)
    job = (ctypes.c_uint64 * 7)(
        *(steps.ctypes.data, len(steps), clocks.ctypes.data),
        *(questions.ctypes.data, len(questions), answers.ctypes.data),
        0 if needs is None else needs.ctypes.data,
    )
    _code().function(ctypes.addressof(job), 0)
    return answers


@once
def _code() -> jit.NativeCode:
    text = module_text(Path(__file__).with_name("native_clocks.ll"))
    return native_module(text, ("replay",), name="replaying synchronisation", opt=2)
