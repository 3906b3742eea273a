"""Replay of synchronising accesses with vector clocks, in native code (`native_clocks.c`).

Each program and each word of memory has a clock: a vector of `WIDTH` numbers that only grow. An
access that acquires sets each number of its program's clock to the maximum of this number and the
corresponding number of the word's clock. An access that releases updates the word's clock from the
program's clock in the same way.

For example, a release by program 0 gives a word the clock (3, 0). If program 1, whose clock is (0,
5), then acquires from this word, its clock becomes (3, 5). The 3 shows that the release happened
before everything that program 1 does next.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from ttools.core.lazy_values import once
from ttools.interpreter.native import jit
from ttools.interpreter.native.native_module import module_beside

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: The number of integers in a clock, which occupies four cache lines or AVX-512 registers.
WIDTH = 64
#: Columns of a step; see `native_clocks.c`.
PROGRAM, READS, WRITES, KEY, VALUE, KEEPS, TAKES, COPIES = range(8)
STEP_COLUMNS = 8
#: The number of columns of a question: a step, an index into a clock, and a row of `needs`.
QUESTION_COLUMNS = 3


def replay(
    steps: NDArray[Any],
    clocks: NDArray[Any],
    questions: NDArray[Any],
    needs: NDArray[Any] | None = None,
) -> NDArray[Any]:
    """Replay steps in order and return the answer to each question.

    All arrays are contiguous and hold int32.

    Args:
        steps: One row of `STEP_COLUMNS` numbers for each access. Clocks are referred to by their
            row in `clocks`; -1 means none.
        clocks: Rows of `WIDTH` zeros. They are zero again when the function returns.
        questions: Rows of `QUESTION_COLUMNS` numbers, in ascending order of steps: a step; an index
            into the clock of that step's program; a row of `needs`, or -1. If the row is -1, the
            answer is the number at that index of the clock after the step. Otherwise the answer is
            1 if each number of the clock is at least the number at the same index of the row, else
            0; the number at the given index is not compared, unless the index is -1.
        needs: Rows of `WIDTH` numbers.

    Raises:
        ValueError: An array has another layout, so native code would read out of bounds.
    """
    import numpy as np

    _require_layout("steps", steps, STEP_COLUMNS)
    _require_layout("clocks", clocks, WIDTH)
    _require_layout("questions", questions, QUESTION_COLUMNS)
    if needs is not None:
        _require_layout("needs", needs, WIDTH)
    answers = np.empty(len(questions), np.int32)
    job = (ctypes.c_uint64 * 7)(
        *(steps.ctypes.data, len(steps), clocks.ctypes.data),
        *(questions.ctypes.data, len(questions), answers.ctypes.data),
        0 if needs is None else needs.ctypes.data,
    )
    _code().function(ctypes.addressof(job), 0)
    return answers


def _require_layout(name: str, array: NDArray[Any], columns: int) -> None:
    if array.shape[1:] != (columns,) or array.dtype != "int32" or not array.flags.c_contiguous:
        raise ValueError(
            f"`{name}` must be a contiguous int32 array with {columns} columns, not {array.dtype} "
            f"of shape {array.shape} with strides {array.strides}"
        )


@once
def _code() -> jit.NativeCode:
    return module_beside(__file__, ("replay",), name="replaying synchronisation")
