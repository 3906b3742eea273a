"""Looks for a word in memory, as fast as memory is read: `native_search.ll`.

Must not know what the memory is for.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

from ttools.core.once import once
from ttools.interpreter.native.native_module import module_text, native_module

#: Words that are looked at before it is asked whether one was the one.
_BLOCK_WORDS = 1 << 10


def holds_word(address: int, words: int, word: int) -> bool:
    """Whether memory holds a word of 32 bits.

    Args:
        address: of the first word, aligned or not.
        words: how many there are, one behind the other.
        word: unsigned.
    """
    return bool(_function()(address, words, word))


@once
def _function() -> Any:
    text = module_text(Path(__file__).with_name("native_search.ll"), {"BLOCK_WORDS": _BLOCK_WORDS})
    code = native_module(text, ("holds",), name="searching memory", opt=2)
    signature = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint32)
    function: Any = signature(code.address)
    function.code = code  # which is unloaded without it
    return function
