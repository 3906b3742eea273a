"""Computes a fingerprint of a package's source files, for caches of results of its code.

A version number would not be sufficient: it stays the same when a checkout is edited or updated.
"""

from __future__ import annotations

import hashlib
import os
from functools import cache
from importlib import import_module
from pathlib import Path

#: The files that determine a package's results: Python code and templates of LLVM IR.
_SUFFIXES = (".py", ".ll")


@cache
def fingerprint(package: str) -> str:
    """Return a digest of the names, sizes and times of all source files of a package.

    The digest is computed once per process.
    """
    digest = hashlib.sha256()
    for root in import_module(package).__path__:
        for folder, _, names in sorted(os.walk(root)):
            for name in sorted(names):
                if name.endswith(_SUFFIXES):
                    status = Path(folder, name).stat()
                    entry = f"{folder[len(root) :]}/{name} {status.st_size} {status.st_mtime_ns}\n"
                    digest.update(entry.encode())
    return digest.hexdigest()[:16]
