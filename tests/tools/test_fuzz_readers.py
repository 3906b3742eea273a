"""Some inputs of `tools.fuzz_readers`, and its classification of outcomes."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest
from tools.fuzz_readers import documents, mutations, structure
from tools.fuzz_readers.__main__ import run
from tools.fuzz_readers.readers import READERS, Mutator, Reader
from tools.fuzz_readers.worker import RIGHTS, outcome_of

from ttools.core.errors import TtoolsError, UsageError

#: These readers start Triton for each input and take longer.
_COSTLY = {
    **dict.fromkeys(("TTIR text", "TTIR generic form", "Chrome trace", "profile and tune JSON"), 4),
    **dict.fromkeys(("records", "Hatchet JSON", "Hatchet MessagePack"), 4),
}
_SEED = 18


@pytest.mark.parametrize("mutator", ["damage", pytest.param("structure", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", READERS)
def test_damaged_inputs_are_accepted_or_refused(
    name: str, mutator: Mutator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TTOOLS_CACHE", "off")
    monkeypatch.setenv("TTOOLS_OPT", "0")
    reader = READERS[name]
    seeds = reader.seeds()
    for number in range(_COSTLY.get(name, 25)):
        path = tmp_path / f"input{reader.suffix}"
        path.write_bytes(reader.inputs(seeds, number, _SEED, mutator))
        outcome, shown = outcome_of(reader, path, number)
        assert outcome in RIGHTS, f"{name} {number}: {outcome}\n{shown}"


@pytest.mark.parametrize("name", [n for n in READERS if n not in ("--arg", "environment")])
def test_valid_inputs_are_accepted(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TTOOLS_CACHE", "off")
    reader = READERS[name]
    path = tmp_path / f"input{reader.suffix}"
    seed = reader.seeds()[0]
    if name == "Hatchet MessagePack":
        seed = documents.damaged_message_pack(seed, _Nothing())
    path.write_bytes(seed)
    assert outcome_of(reader, path, 0) == ("accepted", "")


class _Nothing(Random):
    """Choose to change a value if a list is chosen from."""

    def choice(self, seq):  # type: ignore[no-untyped-def]
        if isinstance(seq, tuple) and all(isinstance(index, int) for index in seq):
            return 0
        return super().choice(seq)


def test_equal_numbers_produce_equal_inputs() -> None:
    reader = READERS["TTIR text"]
    inputs = [reader.inputs(reader.seeds(), number, 3) for number in range(50)]
    assert inputs == [reader.inputs(reader.seeds(), number, 3) for number in range(50)]
    assert len(set(inputs)) > 40
    assert inputs != [reader.inputs(reader.seeds(), number, 4) for number in range(50)]


def test_structures_change_and_can_be_parsed() -> None:
    data = b'{"a": [1, {"b": "c"}], "d": (x < 2), "e": "]"}'
    assert structure.parsed(data).text() == data
    for text in (b"", b"]]", b"[[(", b'"', "ö".encode(), bytes(range(256))):
        assert structure.parsed(text).text() == text
    texts = [structure.restructured(data, Random(n)) for n in range(300)]
    assert len(set(texts)) > 200
    assert texts == [structure.restructured(data, Random(n)) for n in range(300)]
    keys = [text for text in texts if text.count(b'"a"') > 1 and b'{"a": [' in text]
    assert keys
    assert any(b"[" * 98 in text for text in texts)


def test_extreme_values_are_inserted_everywhere() -> None:
    document = {"a": [1, {"b": "c"}], "d": None}
    documents = {repr(mutations.damaged_value(document, Random(n))) for n in range(300)}
    assert len(documents) > 100
    assert document == {"a": [1, {"b": "c"}], "d": None}


class _Bad:
    """Readers whose outcomes are failures, or a refusal."""

    @staticmethod
    def traceback(path: Path, number: int) -> int:
        return dict[Path, int]()[path]

    @staticmethod
    def failure(path: Path, number: int) -> int:
        raise TtoolsError("of ours")

    @staticmethod
    def refusal(path: Path, number: int) -> int:
        raise UsageError("of the user's")


@pytest.mark.parametrize(
    ("read", "outcome"),
    [(_Bad.traceback, "traceback"), (_Bad.failure, "exit 3"), (_Bad.refusal, "refused")],
)
def test_outcomes_are_classified(read, outcome: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    reader = Reader(name="bad", seeds=lambda: [b""], damage=(), suffix="", read=read)
    assert outcome_of(reader, tmp_path / "x", 0)[0] == outcome


def test_a_crashing_reader_is_reported_with_its_input(tmp_path: Path) -> None:
    script = tmp_path / "sitecustomize.py"
    script.write_text(
        "import sys\n"
        "if sys.argv[0:1] == ['-m'] or 'tools.fuzz_readers.worker' in ' '.join(sys.orig_argv):\n"
        "    import os, tools.fuzz_readers.readers as readers\n"
        "    from dataclasses import replace\n"
        "    grid = readers.READERS['--grid']\n"
        "    read = lambda path, number: os.abort() if number in (2, 4) else 0\n"
        "    readers.READERS['--grid'] = replace(grid, read=read)\n"
    )
    path = os.environ.get("PYTHONPATH", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), path, str(Path.cwd())]))
        tally = run("--grid", 6, 0)
    assert sum(tally.outcomes.values()) == 6
    assert [(number, outcome) for number, outcome, _ in tally.defects] == [
        (2, "crash"),
        (4, "crash"),
    ]
