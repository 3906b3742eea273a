"""Tests that scripts end as under `python`: output, order, exit status and remaining threads."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

RUNNER = """
import sys
from ttools.core.process.script import Target, run_target
code = run_target(Target(kind="script", name=sys.argv[1]))
print("report", flush=True)
raise SystemExit(code)
"""

#: Scripts whose threads or child processes outlive the main thread. The order of their output does
#: not depend on the load of the machine. The runner must print its report after this output.
SCRIPTS = {
    "idle threads of an executor": """
        from concurrent.futures import ThreadPoolExecutor
        executor = ThreadPoolExecutor(2)
        print(executor.submit(lambda: "ran").result())
    """,
    "busy threads of an executor": """
        import threading, time
        from concurrent.futures import ThreadPoolExecutor
        executor, said = ThreadPoolExecutor(1), threading.Event()
        executor.submit(said.wait)
        for number in range(3):
            executor.submit(lambda number=number: (time.sleep(0.05), print("task", number)))
        print("script")
        said.set()
    """,
    "an executor's threads after an error": """
        from concurrent.futures import ThreadPoolExecutor
        executor = ThreadPoolExecutor(1)
        executor.submit(print, "task").result()
        raise SystemExit(7)
    """,
    "processes of an executor": """
        from concurrent.futures import ProcessPoolExecutor
        if __name__ == "__main__":
            executor = ProcessPoolExecutor(2)
            print(executor.submit(abs, -3).result())
    """,
    "a pool of processes left open": """
        from multiprocessing import Pool
        if __name__ == "__main__":
            pool = Pool(2)
            print(pool.map(abs, [-1, -2]))
    """,
    "a process that is not joined": """
        import multiprocessing, time
        def work(said):
            said.wait()
            time.sleep(0.3)
            print("child", flush=True)
        if __name__ == "__main__":
            context = multiprocessing.get_context("fork")
            said = context.Event()
            context.Process(target=work, args=(said,)).start()
            print("script", flush=True)
            said.set()
    """,
    "a thread, and a daemon that never ends": """
        import threading, time
        threading.Thread(target=threading.Event().wait, daemon=True).start()
        said = threading.Event()
        threading.Thread(target=lambda: (said.wait(), time.sleep(0.1), print("thread"))).start()
        print("script")
        said.set()
    """,
    "threads that start threads": """
        import threading, time
        def later(depth):
            time.sleep(0.05)
            print("depth", depth)
            if depth:
                threading.Thread(target=later, args=(depth - 1,)).start()
        threading.Thread(target=later, args=(2,)).start()
    """,
    "exit functions, the last first, after threads": """
        import atexit, threading, time
        atexit.register(print, "first", end="!\\n")
        @atexit.register
        def second():
            print("second")
        atexit.register(print, "forgotten")
        atexit.unregister(print)
        atexit.register(print, "third")
        threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
    """,
    "an exit function that fails": """
        import atexit
        atexit.register(print, "last")
        atexit.register(lambda: 1 / 0)
        atexit.register(exit, 3)
    """,
    "asyncio with an executor and a loop left open": """
        import asyncio
        async def main():
            return await asyncio.get_running_loop().run_in_executor(None, lambda: 5)
        print(asyncio.run(main()))
        loop = asyncio.new_event_loop()
        print(loop.run_until_complete(loop.run_in_executor(None, lambda: 6)))
    """,
    "a fork that goes on to its end": """
        import atexit, os
        atexit.register(lambda: print("exit function", flush=True))
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            print("parent", flush=True)
        else:
            print("child", flush=True)
    """,
}


def run(script: Path, *runner: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *runner, str(script)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_scripts_end_as_under_python(text: str, tmp_path: Path) -> None:
    if text is SCRIPTS["threads that start threads"] and sys.version_info[:2] == (3, 12):
        pytest.skip("Python 3.12 starts no threads after the end of the main one; ttools can")
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(text))
    expected, actual = run(script), run(script, "-c", RUNNER)
    lines = actual.stdout.splitlines()
    assert [line for line in lines if line != "report"] == expected.stdout.splitlines()
    assert lines[-1] == "report"
    assert actual.returncode == expected.returncode
    assert [line for line in actual.stderr.splitlines() if "Error" in line] == [
        line for line in expected.stderr.splitlines() if "Error" in line
    ]


@pytest.mark.parametrize("executor", ["ThreadPoolExecutor", "ProcessPoolExecutor"])
def test_executors_work_in_a_second_script(executor: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        f"from concurrent.futures import {executor}\n"
        f"if __name__ == '__main__':\n    print({executor}(1).submit(abs, -1).result())"
    )
    twice = RUNNER.replace(
        "code = ", "run_target(Target(kind='script', name=sys.argv[1]))\ncode = "
    )
    assert run(script, "-c", twice).stdout.splitlines() == ["1", "1", "report"]


#: Script that leaves objects, files and folders which Python destroys at the end of the process.
LEFT = """
import atexit, sys, tempfile, weakref
import helper
class Loud:
    def __init__(self, name): self.name = name
    def __del__(self): print("end of", self.name)
public, _private = Loud("public"), Loud("private")
helper.kept = Loud("what a module keeps")
file = open(sys.argv[0] + ".out", "w"); file.write("not flushed")
helper.file = open(sys.argv[0] + ".more", "w"); helper.file.write("nor this")
scratch = tempfile.NamedTemporaryFile(dir=".", prefix="scratch")
folder = tempfile.TemporaryDirectory(dir=".", prefix="scratch")
cycle = Loud("a cycle"); cycle.itself = cycle
def uses_globals(): return public
weakref.finalize(public, print, "finalized")
atexit.register(print, "at exit")
"""
HASTENED = (
    "import atexit, ttools.core.process.process_end as end\n"
    f"atexit.register(end.hasten_end)\n{RUNNER}"
)


def test_objects_are_destroyed_at_the_end_of_the_process(tmp_path: Path) -> None:
    outcomes = []
    for name, runner in (("python", ()), ("ttools", ("-c", HASTENED))):
        folder = tmp_path / name
        folder.mkdir()
        script = folder / "script.py"
        script.write_text(LEFT)
        (folder / "helper.py").write_text("")
        command = [sys.executable, *runner, "script.py"]
        completed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        written = [(folder / f"script.py.{end}").read_text() for end in ("out", "more")]
        lines = [line for line in completed.stdout.splitlines() if line != "report"]
        outcomes.append((sorted(lines), completed.stderr, written, [*folder.glob("scratch*")]))
    assert outcomes[0] == outcomes[1]
    assert len(outcomes[0][0]) == 6


INTERRUPTED = """
import os, signal, threading, time
from concurrent.futures import ThreadPoolExecutor
executor = ThreadPoolExecutor(1)
executor.submit(time.sleep, 600)
threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
"""


def test_ctrl_c_ends_waiting_for_threads(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(INTERRUPTED)
    completed = run(script, "-m", "ttools.cli.app", "interpret")
    assert completed.returncode == 130
    assert "Traceback" not in completed.stderr
