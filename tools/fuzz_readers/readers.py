"""Tested readers: valid inputs of each, functions that damage them, and the function under test.

A reader receives a file, which may contain the text of an option or of a variable. It returns an
exit status or raises an exception.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal
from unittest.mock import patch

from tools.fuzz_readers import documents, seeds, structure
from tools.fuzz_readers.mutations import damaged_bytes
from ttools.core.findings.findings import Finding
from ttools.core.location import SourceLocation

Damage = Callable[[bytes, Random], bytes]
#: The mutators: `damage` changes bytes, words and values; `structure` rearranges well-formed
#: inputs.
Mutator = Literal["damage", "structure"]


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A function that reads users' input, with valid inputs and ways to damage them.

    Attributes:
        name: Name of the reader.
        seeds: Returns valid inputs, in the format that `damage` expects.
        damage: Functions that damage an input; one of them is chosen at random for each input.
        suffix: Suffix of the file name.
        read: Function that reads a file as the command line does, given its path and its number.
        restructure: Function that rearranges the structure of an input; see `structure`.
    """

    name: str
    seeds: Callable[[], Sequence[bytes]]
    damage: Sequence[Damage]
    suffix: str
    read: Callable[[Path, int], int | None]
    restructure: Damage = structure.restructured

    def inputs(
        self, valid: Sequence[bytes], number: int, seed: int, mutator: Mutator = "damage"
    ) -> bytes:
        """Return one input, which depends only on its number, the seed and the mutator."""
        random = Random(f"{self.name} {seed} {number}")
        damage = self.damage if mutator == "damage" else (self.restructure,)
        return random.choice(damage)(random.choice(valid), random)


def _command(*words: str) -> int:
    """Run `ttools` in this process; return its exit status."""
    from ttools.cli.app import main

    try:
        main(words)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


# ---- files


def _ttir(path: Path, number: int) -> int:
    arguments = ("x=rand:f32[64]", "out=zeros:f32[64]", "n=40")
    return _command(
        *("interpret", str(path), "--grid", "0"),
        *(word for text in arguments for word in ("--arg", text)),
    )


def _generic(path: Path, number: int) -> int:
    arguments = ("arg0=rand:f32[64]", "arg1=40")
    return _command(
        *("interpret", str(path), "--grid", "0"),
        *(word for text in arguments for word in ("--arg", text)),
    )


def _record(path: Path, number: int) -> None:
    from ttools.interpreter.records.record_kernels import kernels_of_record

    folder = path.with_suffix("")
    folder.mkdir(exist_ok=True)
    kernels_of_record(path, folder, {})


def _store(path: Path, number: int) -> int:
    forms = (
        ("show",),
        ("show", "--history"),
        ("show", "--format", "json"),
        ("show", "--format", "html"),
        ("export",),
        ("export", "--format", "lock"),
        ("rules",),
    )
    word, *options = forms[number % len(forms)]
    return _command("tune", word, str(path), *options)


def _view(path: Path, number: int) -> int:
    forms: Sequence[Sequence[str]] = (
        (),
        ("--list",),
        ("--format", "csv"),
        ("--format", "json"),
        ("--metrics", "time/s,util,flop/s"),
        ("--depth", "1", "--threshold", "5"),
    )
    return _command("profile", "view", str(path), *forms[number % len(forms)])


def _compare(path: Path, number: int) -> int:
    sound = path.with_name("sound.json")
    sound.write_bytes(seeds.profile())
    pair = (path, sound) if number % 2 else (sound, path)
    return _command("profile", "compare", *map(str, pair))


def _suppressions(path: Path, number: int) -> None:
    from ttools.core.findings.suppressions import Ran, SuppressionFile

    suppressed = SuppressionFile(path)
    for finding in _findings():
        suppressed.suppress(finding)
    suppressed.unused(Ran(launches=()))


def _baseline(path: Path, number: int) -> None:
    from ttools.core.findings.baseline import Baseline
    from ttools.core.findings.suppressions import Ran

    baselined = Baseline(path)
    for finding in _findings():
        baselined.suppress(finding)
    baselined.unused(Ran(launches=()))


def _findings() -> Sequence[Finding]:
    place = SourceLocation("src/kernel.py", 12, 1)
    return [
        Finding(
            kind="out_of_bounds",
            check="memcheck",
            severity="error",
            message="out of bounds",
            kernel="scale",
            location=place,
        )
    ]


def _space(path: Path, number: int) -> None:
    from ttools.tuner.space.toml_space import load_space

    str(load_space(path))


def _rules(path: Path, number: int) -> None:
    from ttools.tuner.rules.document import read_rules

    for rules in read_rules(path).values():
        facts = {"n": 4096, "dtypes[0]": "float32", "device": "cpu", "multiprocessors": 4}
        # A rule may depend on a property that the launch does not have.
        with suppress(KeyError):
            rules.choose(facts)


def _lock(path: Path, number: int) -> None:
    from ttools.tuner.store.lock import Lock, lock_text, merged, read_lock

    locked = read_lock(path)
    lock_text(merged(locked, Lock({})))
    for problem in locked.winners:
        str(problem)


def _trace(path: Path, number: int) -> None:
    from ttools.watch.report.comparison import compare
    from ttools.watch.trace.recording import Recording

    recorded = Recording(path.read_bytes(), path.name)
    list(recorded)
    compare(recorded, Recording(seeds.trace()))


# ---- texts


def _text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", "surrogateescape")


def _argument(path: Path, number: int) -> None:
    from ttools.cli.launch_files import parse_arguments
    from ttools.interpreter.records.argument_text import make_array, make_scalar

    for name, text in parse_arguments([_text(path)]).items():
        element = "f32" if "f32" in text or "." in text else "i64"
        if ":" in text or ".np" in text:
            make_array(text, name, element)
        else:
            make_scalar(text, name, element)


def _grid(path: Path, number: int) -> None:
    from ttools.cli.launch_files import parse_grid
    from ttools.interpreter.runtime.launch import _extents

    _extents(parse_grid(_text(path)))


def _environment(path: Path, number: int) -> None:
    from ttools.core import configuration
    from ttools.interpreter.native import jit, object_store
    from ttools.interpreter.runtime import blocked_programs, pool
    from ttools.interpreter.runtime.cache import optimisation_level

    name, _, value = _text(path).partition("=")
    with suppress(OSError, ValueError):  # the operating system rejects such a variable
        os.environ[name] = value
    if os.environ.get(name) != value:
        return
    try:
        for variable in configuration.VARIABLES:
            configuration.read(variable.name)
        optimisation_level()
        blocked_programs.max_blocked()
        pool.default_threads()
        configuration.cache_directory()
        jit.host_lanes()
        store = object_store.object_store()
        if store is not None:
            store.read("nothing")
    finally:
        del os.environ[name]


_VARIABLES = (
    *(b"TTOOLS_CPU=x86-64-v3", b"TTOOLS_CPU=znver3", b"TTOOLS_OPT=2", b"TTOOLS_THREADS=2"),
    *(b"TTOOLS_MAX_PARKED=64", b"TTOOLS_BACKEND=auto", b"TTOOLS_CACHE=off"),
    b"TTOOLS_CACHE_DIR=/tmp/ttools-fuzzed-cache",
)
_ARGUMENTS = (
    *(b"x=rand:f32[100]", b"x=full(3):f32[4,4]", b"x=arange:i64[2x3]", b"n=1000", b"n=-0x10"),
    *(b"x=data.npy", b"f=1.5e3", b"x=archive.npz:key", b"x=randn:f32[8 8]", b"b=true"),
)


def _settings(path: Path, number: int) -> int:
    path.with_name("pyproject.toml").write_bytes(path.read_bytes())
    with patch.dict(os.environ):
        return _command("cache", "show")


def _sarif(path: Path, number: int) -> int:
    from ttools.cli.annotate import main

    return main([str(path)])


def _json(*made: Callable[[], bytes]) -> Callable[[], Sequence[bytes]]:
    return lambda: [write() for write in made]


def _packed(data: bytes, random: Random) -> bytes:
    return damaged_bytes(documents.pack(json.loads(data)), random)


_TEXT: Sequence[Damage] = (damaged_bytes,)
_BOTH: Sequence[Damage] = (damaged_bytes, documents.damaged_json)
_PACK: Sequence[Damage] = (_packed, documents.damaged_message_pack)

READERS: dict[str, Reader] = {
    reader.name: reader
    for reader in (
        Reader(
            name="TTIR text",
            seeds=lambda: [seeds.TTIR.encode()],
            damage=_TEXT,
            suffix=".ttir",
            read=_ttir,
        ),
        Reader(
            name="TTIR generic form",
            seeds=lambda: [seeds.GENERIC.encode()],
            damage=_TEXT,
            suffix=".ttir",
            read=_generic,
        ),
        Reader(
            name="records",
            seeds=_json(seeds.record),
            damage=(damaged_bytes, documents.damaged_archive, documents.damaged_archive),
            suffix=".tt",
            read=_record,
            restructure=structure.restructured_archive,
        ),
        Reader(
            name="tuning stores",
            seeds=_json(seeds.store),
            damage=(damaged_bytes, documents.damaged_store, documents.damaged_store),
            suffix=".sqlite",
            read=_store,
            restructure=structure.restructured_store,
        ),
        Reader(
            name="Hatchet JSON",
            seeds=_json(seeds.hatchet),
            damage=_BOTH,
            suffix=".hatchet",
            read=_view,
        ),
        Reader(
            name="Hatchet MessagePack",
            seeds=_json(seeds.hatchet),
            damage=_PACK,
            suffix=".hatchet_msgpack",
            read=_view,
            restructure=structure.restructured_pack,
        ),
        Reader(
            name="Chrome trace",
            seeds=_json(seeds.chrome),
            damage=_BOTH,
            suffix=".chrome_trace",
            read=_view,
        ),
        Reader(
            name="profile and tune JSON",
            seeds=_json(seeds.profile, seeds.profile, seeds.profile, seeds.tuning),
            damage=_BOTH,
            suffix=".json",
            read=_compare,
        ),
        Reader(
            name="suppressions",
            seeds=_json(seeds.suppressions),
            damage=_TEXT,
            suffix=".toml",
            read=_suppressions,
        ),
        Reader(
            name="baselines",
            seeds=_json(seeds.baseline),
            damage=_BOTH,
            suffix=".json",
            read=_baseline,
        ),
        Reader(
            name="space TOML", seeds=_json(seeds.space), damage=_TEXT, suffix=".toml", read=_space
        ),
        Reader(name="rules", seeds=_json(seeds.rules), damage=_BOTH, suffix=".json", read=_rules),
        Reader(
            name="lock files", seeds=_json(seeds.lock), damage=_BOTH, suffix=".json", read=_lock
        ),
        Reader(
            name="value traces",
            seeds=_json(seeds.trace),
            damage=(damaged_bytes, documents.damaged_trace),
            suffix=".trace",
            read=_trace,
        ),
        Reader(
            name="settings",
            seeds=lambda: [seeds.SETTINGS],
            damage=_TEXT,
            suffix=".toml",
            read=_settings,
        ),
        Reader(
            name="SARIF", seeds=lambda: [seeds.SARIF], damage=_BOTH, suffix=".json", read=_sarif
        ),
        Reader(name="--arg", seeds=lambda: _ARGUMENTS, damage=_TEXT, suffix=".txt", read=_argument),
        Reader(
            name="--grid",
            seeds=lambda: (b"4", b"4,2", b"4,2,1", b" 7 , 1"),
            damage=_TEXT,
            suffix=".txt",
            read=_grid,
        ),
        Reader(
            name="environment",
            seeds=lambda: _VARIABLES,
            damage=_TEXT,
            suffix=".txt",
            read=_environment,
        ),
    )
}
