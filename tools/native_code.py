"""Compiles the runtime's C files to LLVM text, which is checked in next to them.

    python -m tools.native_code            # writes the .ll files; needs clang-19
    python -m tools.native_code --check    # exits with status 1 if one is out of date

Users need no C compiler: the engine's LLVM compiles the text on their machine, for their processor.
Therefore the text must not depend on the machine on which it was made. Target, attributes and
metadata are removed, except for attributes that control inlining. The version of clang is fixed,
because its LLVM must be older than that of every supported llvmlite.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from ttools.interpreter.abi import probe_layout
from ttools.interpreter.abi.launch_layout import KERNEL_BYTES, NativeLaunch
from ttools.interpreter.abi.module import CallbackKind
from ttools.interpreter.runtime import support
from ttools.interpreter.runtime.support import (
    native_aligned_memory,
    native_clocks,
    native_fill,
    native_runtime,
    native_search,
    native_tiles,
)

SUPPORT = Path(support.__file__).parent
CLANG = "clang-19"
_FLAGS = (
    *("-x", "c", "-std=c17", "-S", "-emit-llvm", "-Oz", "-o", "-"),
    *("-Wall", "-Werror", "-Wno-incompatible-library-redeclaration"),
    "--target=x86_64-unknown-linux-gnu",
    # The text is optimised on the user's machine; these options only keep it short.
    *(
        "-fno-vectorize",
        "-fno-slp-vectorize",
        "-fno-unroll-loops",
        "-ffreestanding",
        "-fno-builtin",
    ),
    # Integers wrap, types do not restrict aliasing, and nothing is added for debuggers or security.
    *("-fwrapv", "-fno-strict-aliasing", "-fno-stack-protector", "-fno-asynchronous-unwind-tables"),
    *("-fno-discard-value-names", "-Wno-unused-parameter"),
)
#: Attributes that are kept, because they control inlining.
_KEPT = ("alwaysinline", "cold", "noinline")
#: Attributes and linkage keywords that are removed; none of them changes the semantics.
_DROPPED = re.compile(
    r"\b(?:noundef|nonnull|nocapture|readonly|writeonly|readnone|returned|zeroext|signext|noalias|"
    r"nofree|writable|immarg|local_unnamed_addr|unnamed_addr|dso_local|tail(?= call)|"
    r"dereferenceable(?:_or_null)?\(\d+\)|range\([^)]*\)|align \d+(?= (?:dereferenceable|%|@)))\s?"
)


def words() -> Mapping[str, int]:
    """Return the constants that the C files take from Python, by the name of the macro."""
    structures: Mapping[str, type[ctypes.Structure]] = {
        "LAUNCH": NativeLaunch,
        "BOX": native_runtime.Mailbox,
        "RUN": native_runtime.Runner,
        "NOTE": native_runtime.Note,
        "SIGNAL_TARGET": native_runtime.SignalTarget,
        "SIGACTION": native_runtime.SignalAction,
    }
    offsets = {
        f"{prefix}_{name.upper()}": getattr(structure, name).offset
        for prefix, structure in structures.items()
        for name, *_ in structure._fields_
    }
    sizes = {f"{prefix}_BYTES": ctypes.sizeof(kind) for prefix, kind in structures.items()}
    layout = {
        name: value
        for name, value in vars(probe_layout).items()
        if name.isupper() and isinstance(value, int)
    }
    kinds = {f"KIND_{kind.name}": int(kind) for kind in CallbackKind}
    return {
        **offsets,
        **sizes,
        **layout,
        **kinds,
        **{f"MONITOR_{name}": value for name, value in probe_layout.MONITOR.items()},
        **{f"PROBE_{name}": value for name, value in probe_layout.PROBE.items()},
        "FUNCTION_COUNT": len(probe_layout.FUNCTIONS),
        "KERNEL_BYTES": KERNEL_BYTES,
        "ONE_MORE_LANE": 1 << probe_layout.MORE_LANES_SHIFT,
        "COUNT_MASK": (1 << probe_layout.REPEAT_COUNT_BITS) - 1,
        "REPEAT_COUNT_LIMIT": (1 << probe_layout.REPEAT_COUNT_BITS) - 1,
        "REPEAT_COUNT_ROOM": (1 << probe_layout.REPEAT_COUNT_BITS) - 3,
        "REPEAT_LANE_LIMIT": 1 << probe_layout.REPEAT_LANE_BITS,
        "REPEAT_LANE_SHIFT": probe_layout.REPEAT_COUNT_BITS,
        "REPEAT_STRIDE_LIMIT": 1 << probe_layout.REPEAT_STRIDE_BITS,
        "REPEAT_STRIDE_SHIFT": probe_layout.REPEAT_COUNT_BITS + probe_layout.REPEAT_LANE_BITS,
        "WRITING": probe_layout.RELEASES | probe_layout.READS_AND_WRITES | probe_layout.OVERWRITES,
        "ALTERNATE_STACK_BYTES": native_runtime.ALTERNATE_STACK_BYTES,
        "BUSY_NANOSECONDS": native_runtime.BUSY_NANOSECONDS,
        "CLOCK_MONOTONIC": time.CLOCK_MONOTONIC,
        "CLOCK_THREAD": time.CLOCK_THREAD_CPUTIME_ID,
        "FUTEX_WAIT": native_runtime.FUTEX_WAIT_PRIVATE,
        "FUTEX_WAKE": native_runtime.FUTEX_WAKE_PRIVATE,
        "SIGINT": int(signal.SIGINT),
    }


def own_words(name: str) -> Mapping[str, int]:
    """Return the constants that only one of the C files uses."""
    modules: Mapping[str, Mapping[str, int]] = {
        "native_clocks": {
            "WIDTH": native_clocks.WIDTH,
            "STEP_BYTES": 4 * native_clocks.STEP_COLUMNS,
        },
        "native_fill": {"BLOCK_WORDS": native_fill.BLOCK_WORDS},
        "native_aligned_memory": {
            "SMALLEST": native_aligned_memory.SMALLEST,
            "LARGEST": native_aligned_memory.LARGEST,
            "STEP": native_aligned_memory.STEP,
            "FARTHEST": native_aligned_memory.FARTHEST,
            "BLOCKS": native_aligned_memory.BLOCKS,
        },
        "native_search": {
            "BLOCK_WORDS": native_search.BLOCK_WORDS,
            "ROUND_WORDS": native_search.ROUND_WORDS,
        },
        "native_tiles": {"ROW_BYTES": 8 * native_tiles.ROW},
    }
    return modules.get(name, {})


def sources() -> list[Path]:
    """Return the C files."""
    return sorted(SUPPORT.glob("*.c"))


def macros(path: Path) -> Mapping[str, int]:
    """Return the macros that a file or the shared header uses, with their values."""
    text = path.read_text() + path.with_name("native.h").read_text()
    used = set(re.findall(r"\b[A-Z][A-Z_0-9]+\b", text))
    constants = {**words(), **own_words(path.stem)}
    return {name: constants[name] for name in sorted(used & constants.keys())}


def digest(path: Path) -> str:
    """Return a hash of all inputs of a file's LLVM text."""
    parts = [path.read_text(), path.with_name("native.h").read_text(), repr(macros(path))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def compiled(path: Path) -> str:
    """Compile a C file.

    Raises:
        SystemExit: The compiler is missing, or rejects the file.
    """
    defined = [f"-D{name}={value}" for name, value in macros(path).items()]
    try:
        done = subprocess.run(
            [CLANG, *_FLAGS, *defined, str(path)], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise SystemExit(f"{CLANG} is not installed; `apt-get install {CLANG}`") from None
    if done.returncode:
        raise SystemExit(f"{path.name}:\n{done.stderr}")
    head = (
        f"; Made of {path.name} by `python -m tools.native_code`; change that file.\n"
        f"; {digest(path)}\n"
    )
    return head + stripped(done.stdout)


def stripped(text: str) -> str:
    """Remove the parts of LLVM text that depend on the machine or on the compiler's version."""
    groups = {
        number: [name for name in _KEPT if re.search(rf"\b{name}\b", attributes)]
        for number, attributes in re.findall(r"^attributes #(\d+) = \{(.*)\}$", text, re.M)
    }
    lines = []
    for line in text.splitlines():
        if re.match(r"(; (ModuleID|Function Attrs)|source_filename|target |attributes |!)", line):
            continue
        if "@llvm.lifetime." in line or "@llvm.assume" in line:
            continue
        line = re.sub(r"(, ![\w.]+ !\d+)+$", "", line)
        line = re.sub(r"\s*; preds = .*$", "", line)
        line = re.sub(r" #(\d+)", lambda m: "".join(f" {name}" for name in groups[m[1]]), line)
        lines.append(re.sub(r" +(?=[,)]|$)", "", _DROPPED.sub("", line)))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def main() -> None:
    """Write the LLVM text of all C files, or report the files that are out of date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="report files that are out of date")
    check = parser.parse_args().check
    changed = []
    for path in sources():
        text, target = compiled(path), path.with_suffix(".ll")
        if not target.exists() or target.read_text() != text:
            changed.append(target.name)
            if not check:
                target.write_text(text)
    print(f"{'out of date' if check else 'written'}: {', '.join(changed) or 'none'}")
    sys.exit(check and bool(changed))


if __name__ == "__main__":
    main()
