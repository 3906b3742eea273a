"""A fingerprint of a package's files, for caches of what its code produces.

A version says too little: an edited or updated checkout keeps it.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from importlib import import_module
from pathlib import Path

#: What decides a package's results: Python, and the LLVM text that it fills in.
_SUFFIXES = (".py", ".ll")


@cache
def fingerprint(package: str) -> str:
    """A digest of names, sizes and times of all source files of a package, `ttools.sanitizer`.

    It is computed once in a process, whose code does not change either.
    """
    digest = hashlib.sha256()
    for root in import_module(package).__path__:
        for folder, _, names in sorted(os.walk(root)):
            for name in sorted(names):
                if name.endswith(_SUFFIXES):
                    found = Path(folder, name).stat()
                    entry = f"{folder[len(root) :]}/{name} {found.st_size} {found.st_mtime_ns}\n"
                    digest.update(entry.encode())
    return digest.hexdigest()[:16]
