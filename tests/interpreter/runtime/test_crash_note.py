"""Tests of crash reports of processes with freed Python objects and a damaged heap."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.forked_python import PYTHON

from ttools.interpreter.runtime.permanent_memory import immortal_memory, immortal_text

pytest.importorskip("torch")  # the scripts of this file import it

#: Program that runs a kernel, frees the objects of the report and overwrites their memory. It ends
#: in the way that its arguments describe.
SCRIPT = """\
import ctypes, gc, os, signal, sys, threading
import torch, triton, triton.language as tl
from ttools.interpreter.runtime.crash_note import write_crash_note

how, number = sys.argv[1], int(sys.argv[2])

def make(name):
    text = f"@triton.jit\\ndef {name}(x_ptr):\\n    tl.store(x_ptr, 1.0)\\n"
    path = os.path.join(os.path.dirname(__file__), f"{name}.py")
    with open(path, "w") as file:
        file.write("import triton\\nimport triton.language as tl\\n\\n\\n" + text)
    sys.path.insert(0, os.path.dirname(__file__))
    return getattr(__import__(name), name)

def run(name):
    x = torch.zeros(16)
    make(name)[1,](x)
    del sys.modules[name]

if how != "repeatedly":
    write_crash_note("the first advice")
run("first_kernel")
run("last_kernel")
if how == "repeatedly":
    for n in range(100):
        write_crash_note(f"advice number {n}")
    write_crash_note("the first advice")
gc.collect()
# What was freed is given out again.
kept = [ctypes.create_string_buffer(b"\\xff" * size) for size in range(1, 400) for _ in range(40)]

def crash():
    signal.raise_signal(number)

if how == "collected":
    from ttools.interpreter.runtime.launch import Kernel
    for kernel in [each for each in gc.get_objects() if isinstance(each, Kernel)]:
        kernel.__dict__.clear()
    for name in ["ttools.interpreter.runtime.crash_note", "ttools.interpreter.runtime.launch"]:
        sys.modules[name].__dict__.clear()
        del sys.modules[name]
    gc.collect()
    kept += [ctypes.create_string_buffer(b"\\xfe" * s) for s in range(1, 400) for _ in range(40)]
    crash()
elif how == "exit":
    # Runs when Python has freed its objects and its thread, as the C library's own checks do.
    c = ctypes.CDLL(None)
    kill = ctypes.cast(getattr(c, "raise"), ctypes.c_void_p)
    c.__cxa_atexit.argtypes = [ctypes.c_void_p] * 3
    c.__cxa_atexit(kill, number, None)
elif how == "fork":
    child = os.fork()
    if child:
        status = os.waitpid(child, 0)[1]
        os._exit(128 + os.WTERMSIG(status))
    crash()
elif how == "thread":
    thread = threading.Thread(target=crash)
    thread.start()
    thread.join()
elif how == "repeatedly":
    crash()
"""
_SIGNALS = ["SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE"]


@pytest.mark.parametrize("how", ["collected", "exit", "fork", "thread", "repeatedly"])
@pytest.mark.parametrize(
    "name", [_SIGNALS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in _SIGNALS[1:])]
)
def test_the_report_is_complete(how: str, name: str, tmp_path: Path) -> None:
    number = int(getattr(signal, name))
    script = tmp_path / "crashing.py"
    script.write_text(SCRIPT)
    arguments = [str(script), how, str(number)]
    environment = {**os.environ, "TTOOLS_QUIET": "1"}
    if how == "exit":  # needs a normal exit of Python, and forks end with `os._exit`
        command = [sys.executable, *arguments]
        completed = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120
        )
    else:
        completed = PYTHON.run(arguments, env=environment)
    assert completed.stderr == (
        "\nerror: the process was killed by an invalid memory access or a damaged heap; "
        "the last kernel to start was `last_kernel` "
        f"(defined at {tmp_path / 'last_kernel.py'}:6)\n      help: the first advice\n"
    )
    assert completed.returncode == (128 + number if how == "fork" else -number)


def test_equal_texts_share_an_address() -> None:
    texts = [f"kernel {n} " + "é" * n for n in range(3000)]
    addresses = [immortal_text(text) for text in texts]
    assert addresses == [immortal_text(text) for text in texts]
    assert len(set(addresses)) == len(texts)
    for text, address in zip(texts, addresses, strict=True):
        assert ctypes.string_at(address).decode() == text
    long = "x" * 300_000
    assert ctypes.string_at(immortal_text(long)) == long.encode()


def test_memory_is_zeroed_and_writable() -> None:
    address = immortal_memory(5000)
    assert ctypes.string_at(address, 5000) == bytes(5000)
    ctypes.memset(address, 1, 5000)
    assert address % 4096 == 0
    assert ctypes.string_at(address, 5000) == b"\1" * 5000
