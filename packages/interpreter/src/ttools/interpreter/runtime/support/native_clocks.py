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


def replay(steps: NDArray[Any], clocks: NDArray[Any], questions: NDArray[Any]) -> NDArray[Any]:
    """Plays steps in their order and returns the answer to each question.

    Args:
        steps: One row of `STEP_COLUMNS` int32 for each access, contiguous; clocks are named by
            their row in `clocks`, and -1 stands for none.
        clocks: Rows of `WIDTH` int32, all zero. They are zero again afterwards.
        questions: Rows of two int32, ascending: a step, and which number of its program's clock
            is asked for as it is after that step.
    """
    import numpy as np

    answers = np.empty(len(questions), np.int32)
    job = (ctypes.c_uint64 * 6)(
        *(steps.ctypes.data, len(steps), clocks.ctypes.data),
        *(questions.ctypes.data, len(questions), answers.ctypes.data),
    )
    _code().function(ctypes.addressof(job), 0)
    return answers


@once
def _code() -> jit.NativeCode:
    text = module_text(Path(__file__).with_name("native_clocks.ll"))
    return native_module(text, ("replay",), name="replaying synchronisation", opt=2)
