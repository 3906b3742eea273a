"""Isolation of a worker from the system by Linux namespaces, without privileges.

The process gets its own namespaces for users, mounts, processes, network, host name and IPC. It can
read all files of its user, but can write only to its temporary folder and to given folders. Its
`/dev` contains only the usual files such as `/dev/null`. It sees only itself and the processes that
it starts, and has no capabilities. When the first process in a PID namespace ends, the system kills
all others in it, including those that have left their process group.

Some steps would change the whole system if they were taken outside a separate mount namespace.
These steps are taken only after that namespace has been created; if its creation fails, they are
not taken.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import sys
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

_NEW_MOUNTS, _NEW_UTS, _NEW_IPC = 0x00020000, 0x04000000, 0x08000000
_NEW_USER, _NEW_PROCESSES, _NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
_SPACES = _NEW_MOUNTS | _NEW_UTS | _NEW_IPC | _NEW_USER | _NEW_PROCESSES
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_EXECUTION = 1, 2, 4, 8
_BIND, _MOVE, _RECURSIVE, _PRIVATE = 0x1000, 0x2000, 0x4000, 0x40000
#: `mount_setattr` has the same number on all architectures; it requires Linux 5.12 or later.
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_SECUREBITS = 1, 24, 28
_PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL = 38, 47, 4
#: With these bits, user ID 0 has no capabilities, and the setting can no longer be changed.
_SECURE_BITS = 0b101111
_CAPABILITY_VERSION = 0x20080522
_MOST_CAPABILITIES = 64
_DEVICES = ("null", "zero", "full", "random", "urandom")
#: Size limit of each folder that is kept in memory.
_FOLDER_BYTES = 1 << 30
#: Folders to hide, because they contain sockets of services.
_HIDDEN = ("/run", "/var/run", "/dev/shm")


class IsolationError(OSError):
    """A step of the isolation is not possible on this system."""


def isolate(folder: str, writable: Sequence[str] = (), *, network: bool = False) -> None:
    """Isolate this process: fork it, and return in the child, the first process in its namespace.

    The original process waits for the child and then ends with the same status or signal.

    Args:
        folder: Working directory of the process, which is replaced by an empty file system in
            memory.
        writable: Folders that stay writable.
        network: If True, the process keeps the network of the system.

    Raises:
        IsolationError: A step of the isolation is not possible.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    _check(libc.unshare(_SPACES if network else _SPACES | _NEW_NETWORK), "namespaces")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")
    _mount(libc, None, "/", None, _RECURSIVE | _PRIVATE)
    # Linux clears this setting when a process enters a new user namespace, so it is set again.
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    child = os.fork()
    if child != 0:
        _end_as(child)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _arrange_files(libc, folder, writable, network=network)
    _drop_capabilities(libc)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.chdir(folder)


def _end_as(child: int) -> NoReturn:
    """Wait for a process, and end with the same status or signal."""
    os.closerange(3, 65536)  # so that the child's connections are closed when it ends
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler that could be reset
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 1)


def _arrange_files(libc: Any, folder: str, writable: Sequence[str], *, network: bool) -> None:
    names = _name_servers() if network else None
    for path in writable:
        _mount(libc, path, path, None, _BIND)
    _set_attributes(libc, "/", add=_READ_ONLY | _NO_SUID, flags=_AT_RECURSIVE)
    for path in writable:
        _set_attributes(libc, path, remove=_READ_ONLY)
    size = f"size={_FOLDER_BYTES},mode=700"
    _mount(libc, "tmpfs", folder, "tmpfs", _NO_SUID | _NO_DEVICES, size)
    _make_devices(libc, folder)
    for path in _HIDDEN:
        if Path(path).is_dir() and not Path(path).is_symlink():
            _mount(libc, "tmpfs", path, "tmpfs", _NO_SUID | _NO_DEVICES, size)
    if names is not None and not names[0].exists():
        names[0].parent.mkdir(parents=True, exist_ok=True)
        names[0].write_bytes(names[1])
    # Mount a new read-only /proc, because root could otherwise write to /proc/sys.
    plain = _READ_ONLY | _NO_SUID | _NO_DEVICES | _NO_EXECUTION
    _mount(libc, "proc", "/proc", "proc", plain)


def _name_servers() -> tuple[Path, bytes] | None:
    """Return the configuration file of the DNS resolver, which is often in a hidden folder."""
    try:
        file = Path("/etc/resolv.conf").resolve(strict=True)
        return file, file.read_bytes()
    except OSError:
        return None


def _make_devices(libc: Any, folder: str) -> None:
    """Create a `/dev` without disks, terminals and accelerators."""
    place = Path(folder) / "dev"
    place.mkdir()
    _mount(libc, "tmpfs", str(place), "tmpfs", _NO_SUID, "size=1048576,mode=755")
    for name in _DEVICES:
        (place / name).touch()
        _mount(libc, f"/dev/{name}", str(place / name), None, _BIND)
    (place / "shm").mkdir()
    for name, target in (("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0")):
        (place / name).symlink_to(target)
    _mount(libc, str(place), "/dev", None, _MOVE)
    place.rmdir()


def _drop_capabilities(libc: Any) -> None:
    _check(libc.prctl(_PR_SET_SECUREBITS, _SECURE_BITS, 0, 0, 0), "secure bits")
    for capability in range(_MOST_CAPABILITIES):
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    libc.prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0)
    _check(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    head = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    _check(libc.capset(head, bytes(24)), "dropping capabilities")


def _set_attributes(libc: Any, path: str, *, add: int = 0, remove: int = 0, flags: int = 0) -> None:
    attributes = struct.pack("=QQQQ", add, remove, 0, 0)
    place = os.fsencode(path)
    done = libc.syscall(_MOUNT_SETATTR, _AT_FDCWD, place, flags, attributes, len(attributes))
    _check(done, f"read-only {path}")


def _mount(
    libc: Any, source: str | None, target: str, kind: str | None, flags: int, data: str = ""
) -> None:
    encoded = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    done = libc.mount(*encoded, ctypes.c_ulong(flags), data.encode() or None)
    _check(done, f"mounting {target}")


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, "ascii")
    except OSError as error:
        raise IsolationError(error.errno, f"{path}: {error.strerror}") from None


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise IsolationError(number, f"{what}: {os.strerror(number)}")


@lru_cache(maxsize=1)
def missing_isolation() -> str:
    """Return the reason why workers of this process cannot be isolated; empty if they can be.

    The function forks a child that tries to isolate itself. Note that the first process of a
    namespace ignores most signals that it sends to itself, so an isolated worker that calls `abort`
    is terminated by SIGSEGV instead of SIGABRT.
    """
    if not sys.platform.startswith("linux"):
        return "namespaces exist only on Linux"
    temporary = Path(tempfile.gettempdir()).resolve()
    if any(temporary.is_relative_to(path) for path in ("/dev", "/proc", *_HIDDEN)):
        return f"the folder of temporary files, {temporary}, would be hidden"
    reading, writing = os.pipe()
    with tempfile.TemporaryDirectory(prefix="ttools-isolation-") as folder:
        child = os.fork()
        if child == 0:
            said = b""
            with contextlib.suppress(BaseException):
                try:
                    isolate(folder, [])
                except OSError as error:
                    said = str(error.strerror or error).encode() or b"?"
                else:
                    said = b"done"
                os.write(writing, said)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            answer = pipe.read().decode(errors="replace")
        os.waitpid(child, 0)
    return (
        "" if answer == "done" else answer or "the process that tested isolation terminated early"
    )
