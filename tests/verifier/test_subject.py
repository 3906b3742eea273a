"""The functions of a verification: defaults, and errors that name what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttools.core.errors import UsageError
from ttools.core.process.channel import Channel
from ttools.verifier.api import subject_of
from ttools.verifier.options import VerifyOptions
from ttools.verifier.run import processes
from ttools.verifier.run.processes import Processes, Subject

KERNEL = """
import triton

@triton.jit
def softmax_kernel(): ...

def _grid(): ...
"""
OTHERS = "def reference(): ...\ndef inputs(): ...\n"
SOFTMAX = "def softmax(): ...\n"


def names(source: str, folder: Path, word: str = "", **others: str) -> dict[str, str]:
    """Return the names of the functions that a word names in a file with this source."""
    path = folder / "k.py"
    path.write_text(KERNEL + source)
    subject = subject_of(f"{path}{word}", **others)
    return {key: value.removeprefix(f"{path.resolve()}:") for key, value in subject.items()}


def test_defaults(tmp_path: Path) -> None:
    usual = {"reference": "reference", "inputs": "inputs"}
    assert names(OTHERS + SOFTMAX, tmp_path) == {"candidate": "softmax", **usual}
    assert names(OTHERS + SOFTMAX, tmp_path, ":softmax") == {"candidate": "softmax", **usual}
    both = OTHERS + SOFTMAX + "if True:\n    candidate = softmax\n"
    assert names(both, tmp_path) == {"candidate": "candidate", **usual}
    assert names(SOFTMAX + "from a import reference, b as inputs\n", tmp_path)["inputs"] == "inputs"
    assert names(SOFTMAX + "from a import *\n", tmp_path, ":softmax")["inputs"] == "inputs"
    assert subject_of(f"{tmp_path}/k.py:softmax") == subject_of(
        f"{tmp_path}/k.py:softmax", f"{tmp_path}/k.py", f"{tmp_path}/k.py"
    )
    named = names(
        "def plain(): ...\ndef draw(): ...\n" + SOFTMAX,
        tmp_path,
        ":softmax",
        reference=f"{tmp_path}/k.py:plain",
        inputs=f"{tmp_path}/k.py:draw",
    )
    assert named == {"candidate": "softmax", "reference": "plain", "inputs": "draw"}


def test_errors(tmp_path: Path) -> None:
    for source, word, message in (
        (SOFTMAX, "", "does not define `reference` and `inputs`: define"),
        (SOFTMAX + "def reference(): ...\n", ":softmax", "does not define `inputs`: define"),
        (OTHERS, "", "does not define a candidate: name the function"),
        (OTHERS + SOFTMAX + "def gelu(): ...\n", "", r"candidate \(softmax, gelu\): name one"),
    ):
        with pytest.raises(UsageError, match=message):
            names(source, tmp_path, word)
    with pytest.raises(UsageError, match=r"there is no file `absent\.py`"):
        subject_of("absent.py")


def test_a_candidate_does_not_choose_the_files_that_are_read(tmp_path: Path) -> None:
    (tmp_path / "project" / "more").mkdir(parents=True)
    for name in ("project/k.py", "project/more/b.py", "project/notes.txt", "secret.py"):
        (tmp_path / name).write_text("x = 1\n")
    (tmp_path / "project" / "linked.py").symlink_to(tmp_path / "secret.py")
    word = f"{tmp_path}/project/k.py:f"
    subject = Subject(word, word, word)
    assert subject.is_source(f"{tmp_path}/project/k.py")
    assert subject.is_source(f"{tmp_path}/project/more/b.py")
    assert subject.is_source(pytest.__file__)
    for file in ("project/notes.txt", "secret.py", "project/linked.py", "project/absent.py"):
        assert not subject.is_source(f"{tmp_path}/{file}")
    assert not subject.is_source("/dev/zero")
    assert not subject.is_source("a\0.py")


def test_replay_uses_the_cache_only_if_no_candidate_can_write_to_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caches = []

    class Stub:
        def __init__(self, *_: object, has_cache: bool) -> None:
            caches.append(has_cache)

        def serve(self, channel: Channel) -> None:
            channel.receive()
            channel.send({})

    monkeypatch.setattr(processes, "Replayer", Stub)
    for reason in ("", "the system has no namespaces"):
        started = Processes(Subject("k.py:f", "k.py:g", "k.py:h"), VerifyOptions())
        started.not_isolated = reason
        started.replayer()
        started.end_all()
    assert caches == [True, False]
