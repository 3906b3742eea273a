"""Looks for a word in memory, as fast as memory is read: `native_search.ll`.

Must not know what the memory is for.
"""

from __future__ import annotations

from pathlib import Path

from ttools.core.once import once
from ttools.interpreter.native import jit
from ttools.interpreter.native.native_module import module_text, native_module
from ttools.interpreter.runtime.support.shared_job import run_job

#: Words that are looked at before it is asked whether one was the one.
_ROUND_WORDS = 1 << 10
#: Words that a thread takes at a time.
_BLOCK_WORDS = 1 << 16


def holds_word(address: int, words: int, word: int) -> bool:
    """Whether memory holds a word of 32 bits.

    Args:
        address: of the first word, aligned or not.
        words: how many there are, one behind the other.
        word: unsigned.
    """
    blocks = -(-words // _BLOCK_WORDS)
    *_, found = run_job(_code(), blocks, (words, address, word, 0), worthwhile=4)
    return bool(found)


@once
def _code() -> jit.NativeCode:
    sizes = {"ROUND_WORDS": _ROUND_WORDS, "BLOCK_WORDS": _BLOCK_WORDS}
    text = module_text(Path(__file__).with_name("native_search.ll"), sizes)
    return native_module(text, ("search",), name="searching memory", opt=2)
