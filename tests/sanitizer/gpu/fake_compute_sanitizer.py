"""Replaces compute-sanitizer on machines without a GPU.

The program is run on the CPU by the Python process of the tests. The report is the text of
`FAKE_REPORTS/TOOL.txt`; placeholders such as `{x_ptr+400}` become addresses in the arguments of the
last launch. `FAKE_MODE` selects ways in which the tool can fail.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main(arguments: list[str]) -> int:
    if arguments == ["--version"]:
        version = os.environ.get("FAKE_VERSION", "2025.3.1.0")
        print(f"NVIDIA (R) Compute Sanitizer\nVersion {version} (build 1) (public-release)")
        return 0
    split = arguments.index(sys.executable)
    options, program = arguments[:split], arguments[split:]
    tool, log = (options[options.index(name) + 1] for name in ("--tool", "--log-file"))
    report = Path(log)
    mode = os.environ.get("FAKE_MODE", "")
    if mode == "refuse":
        report.write_text("========= Error: Device not supported. Please refer to the manual\n")
        return 0
    if mode == "start nothing":
        report.write_text("========= Error: no such thing\n")
        return 1
    report.write_text("========= COMPUTE-SANITIZER\n")
    environment = {**os.environ, "TTOOLS_BACKEND": "auto", "FAKE_TOOL": tool}
    status = run(program[1:], environment)
    with report.open("a") as file:
        file.write(filled(tool, report.with_name("launches.jsonl")))
        if status < 0:
            file.write("========= Error: process didn't terminate successfully\n")
    if mode == "hang":
        # Ignore all signals but SIGKILL, and start a child process that has to be ended, too.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        Path(os.environ["FAKE_PIDS"]).write_text(f"{os.getpid()} {child.pid}")
        time.sleep(600)
    return abs(status)


def run(words: list[str], environment: dict[str, str]) -> int:
    """Run `python WORDS…` with the streams of this process.

    Returns:
        The exit status; negative for a signal.
    """
    stdin = "/proc/self/fd/0" if stat.S_ISREG(os.fstat(0).st_mode) else os.devnull
    with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
        streams = (str(Path(stdin).resolve()), out.name, err.name)
        order = {"words": words, "cwd": str(Path.cwd()), "env": environment, "streams": streams}
        with socket.socket(socket.AF_UNIX) as forks, forks.makefile("rw") as file:
            forks.connect(os.environ["FAKE_FORKS"])
            file.write(json.dumps(order) + "\n")
            file.flush()
            status = int(file.readline())
        sys.stdout.buffer.write(out.read())
        sys.stderr.buffer.write(err.read())
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def filled(tool: str, log: Path) -> str:
    """Return the report of a tool, with the addresses of the last logged launch filled in."""
    path = Path(os.environ.get("FAKE_REPORTS", "/")) / f"{tool}.txt"
    entries = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    launches = [entry for entry in entries if "launch" in entry]
    if not path.exists() or not launches:
        return path.read_text() if path.exists() else ""
    starts = {argument["name"]: argument.get("start") for argument in launches[-1]["arguments"]}
    text = path.read_text().replace("{script}", launches[-1]["line"].rpartition(":")[0])
    return re.sub(r"\{(\w+)\+(\d+)\}", lambda m: hex(starts[m[1]] + int(m[2])), text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
