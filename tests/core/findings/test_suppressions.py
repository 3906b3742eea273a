"""Tests of suppressions by rules, inline comments and baselines, and of notes about unused ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ttools.core.errors import UsageError
from ttools.core.findings.baseline import SCHEMA, Baseline, site_of, write_baseline
from ttools.core.findings.findings import Finding, TallyEntry
from ttools.core.findings.inline import InlineSuppressions, comments_of
from ttools.core.findings.suppressions import Ran, Source, SuppressionFile, apply
from ttools.core.location import SourceLocation
from ttools.core.spec import CallSite, LaunchSpec

SOURCE = """\
def helper(p):
    return tl.load(p)


def kernel(p, q):
    a = tl.load(p)  # ttools: ignore[oob_load] the caller pads
    # ttools: ignore[racecheck, uninit_read] one program writes
    # a further comment
    tl.store(q, a)
    b = helper(p)  # ttools: ignore[*]: known
    c = tl.load(q)  # ttools: ignore[oob_load]
    s = "# ttools: ignore[oob_load] a string"


def other(p):
    tl.load(p)  # ttools: ignore[oob_load] never launched
"""


def finding(
    kind: str = "oob_load",
    check: str = "memcheck",
    kernel: str = "kernel",
    file: str = "/src/pkg/kernel.py",
    line: int = 6,
    callers: tuple[SourceLocation, ...] = (),
) -> Finding:
    return Finding(
        kind=kind,
        check=check,
        severity="error",
        message="m",
        kernel=kernel,
        location=SourceLocation(file, line, 5, callers=callers),
    )


def ran(*kernels: str, location: str | None = None, active: tuple[str, ...] | None = None) -> Ran:
    launches = [
        TallyEntry(spec=LaunchSpec(kernel=name, grid=(1, 1, 1), site=CallSite(line=location)))
        for name in kernels
    ]
    return Ran(
        launches=launches,
        active=lambda name: active is None or name in active,
        kinds=("oob_load", "race"),
    )


def messages(notes: list[Finding]) -> list[tuple[int, str]]:
    assert all(note.severity == "note" for note in notes)
    return [(note.location.line, note.message) for note in notes]


# --- files ------------------------------------------------------------------------------------


def rules(tmp_path: Path, text: str) -> SuppressionFile:
    path = tmp_path / "suppressions.toml"
    path.write_text(text)
    return SuppressionFile(path)


@pytest.mark.parametrize(
    ("rule", "matches"),
    [
        ('kind = "oob_load"', True),
        ('kind = "memcheck"', True),
        ('kind = "*"', True),
        ('kind = "memcheck/oob_load"', True),
        ('kind = "memcheck/*"', True),
        ('kind = "racecheck/oob_load"', False),
        ('kind = "oob_load/*"', False),
        ('kind = "oob_store"', False),
        ('kernel = "kernel"', True),
        ('kernel = "ker*"', True),
        ('kernel = "other"', False),
        ('file = "kernel.py"', True),
        ('file = "pkg/kernel.py"', True),
        ('file = "/src/*"', True),
        ('file = "nel.py"', False),
        ('file = "kernel.py"\nline = 6', True),
        ('file = "kernel.py"\nline = 7', False),
        ('kind = "oob_load"\nkernel = "other"', False),
    ],
)
def test_rule(tmp_path: Path, rule: str, matches: bool) -> None:
    source = rules(tmp_path, f'[[suppress]]\nreason = "why"\n{rule}\n')
    kept, hidden = apply([finding()], [source], ran("kernel", "other"))
    assert [entry.reason for entry in hidden] == (["why"] if matches else [])
    assert [f.kind for f in kept] == ([] if matches else ["oob_load", "unused_suppression"])


def test_rule_matches_where_a_function_was_inlined(tmp_path: Path) -> None:
    source = rules(tmp_path, '[[suppress]]\nreason = "r"\nfile = "main.py"\nline = 3\n')
    inlined = finding(line=2, callers=(SourceLocation("/main.py", 3, 1),))
    assert source.suppress(inlined)
    assert source.suppress(finding(line=3)) is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[[suppress]]\nkind = 'race'\n", "toml:1:1: a suppression needs a `reason`"),
        ("[[suppress]]\nkind = 'race'\nreason = ' '\n", "needs a `reason`"),
        ("\n[[suppress]]\nreason = 'r'\n", "toml:2:1: a suppression needs a `kind`, a `kernel`"),
        ("[[suppress]]\nreason = 'r'\nkind = 'race'\nline = 3\n", "`line` needs a `file`"),
        ("[[suppress]]\nreason = 'r'\nknd = 'race'\n", "`knd` is not one of reason, kind"),
        ("[[suppress]]\nreason = 'r'\nfile = 'f'\nline = true\n", "`line` must be of type int"),
        ("[suppress]\nreason = 'r'\n", "only [[suppress]] tables"),
        ("[[ignore]]\nreason = 'r'\n", "only [[suppress]] tables"),
        ("suppress = 3\n", "only [[suppress]] tables"),
        ("= =", "is not valid TOML"),
    ],
)
def test_invalid_files_are_errors(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        rules(tmp_path, text)
    assert sentence in str(caught.value)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        SuppressionFile(tmp_path / "none.toml")


def test_unused_rules_are_reported_if_they_could_have_matched(tmp_path: Path) -> None:
    text = "".join(
        f'[[suppress]]\nreason = "r"\n{rule}\n'
        for rule in ('kind = "race"', 'kernel = "idle"', 'kind = "oob_load"', 'kind = "nan"')
    )
    source = rules(tmp_path, text)
    kept, hidden = apply([finding()], [source], ran("kernel", active=("race", "oob_load")))
    assert len(hidden) == 1
    assert messages(kept) == [(1, "this suppression matched no finding")]
    assert kept[0].location.file == str(tmp_path / "suppressions.toml")


def test_all_sources_that_match_a_finding_count_as_used(tmp_path: Path) -> None:
    sources: list[Source] = [
        rules(tmp_path, f'[[suppress]]\nreason = "{reason}"\nkind = "oob_load"\n')
        for reason in ("first", "second")
    ]
    kept, hidden = apply([finding()], sources, ran("kernel"))
    assert (kept, [entry.reason for entry in hidden]) == ([], ["first"])


# --- comments ---------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "kernel.py"
    path.write_text(SOURCE)
    return str(path)


@pytest.mark.parametrize(
    ("kind", "check", "line", "reason"),
    [
        ("oob_load", "memcheck", 6, "the caller pads"),
        ("oob_store", "memcheck", 6, None),
        ("uninit_read", "initcheck", 9, "one program writes"),
        ("race", "racecheck", 9, "one program writes"),
        ("oob_store", "memcheck", 9, None),
        ("race", "racecheck", 6, None),
        ("race", "racecheck", 10, "known"),
        ("oob_load", "memcheck", 11, None),  # without a reason
        ("oob_load", "memcheck", 12, None),  # in a string
        ("oob_load", "memcheck", 2, None),
    ],
)
def test_comment(source: str, kind: str, check: str, line: int, reason: str | None) -> None:
    match = InlineSuppressions().suppress(finding(kind, check, file=source, line=line))
    assert (match and match.reason) == reason


def test_comment_covers_calls_inlined_there(source: str) -> None:
    inlined = finding(file=source, line=2, callers=(SourceLocation(source, 10, 9),))
    assert InlineSuppressions().suppress(inlined)


def test_unused_comments_of_launched_kernels_are_reported(source: str) -> None:
    inline = InlineSuppressions()
    kept, _ = apply([finding(file=source)], [inline], ran("kernel", location=f"{source}:99"))
    assert messages(kept) == [
        (7, "this comment matched no finding"),
        (10, "this comment matched no finding"),
        (11, "this comment gives no reason, so it is not honoured"),
    ]
    silent, _ = apply([], [InlineSuppressions()], ran("kernel", location=None))
    assert silent == []


def test_comments_for_checks_that_did_not_run_are_not_reported(source: str) -> None:
    where = f"{source}:99"
    notes = InlineSuppressions().unused(ran("kernel", location=where, active=("oob_load",)))
    assert [note.location.line for note in notes] == [6, 10, 11]


@given(st.text(max_size=200))
def test_files_with_any_text_can_be_searched_for_comments(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.py"
    path.write_bytes(text.encode(errors="replace"))
    comments_of(str(path))


# --- baselines --------------------------------------------------------------------------------

LINES = st.lists(st.sampled_from(["x = load(p)", "store(q)", "    store(q)", ""]), max_size=6)


def findings_in(path: Path, kinds: list[tuple[str, int]]) -> list[Finding]:
    return [finding(kind, file=str(path), line=line) for kind, line in kinds]


def test_baseline_follows_moved_lines_and_keeps_new_findings(tmp_path: Path) -> None:
    path, baseline = tmp_path / "kernel.py", tmp_path / "baseline.json"
    path.write_text("x = load(p)\nstore(q)\n")
    before = findings_in(path, [("oob_load", 1), ("race", 2)])
    assert write_baseline(before, baseline) == 2
    path.write_text("# new\n# lines\nx = load(p)\n  store(q)\nstore(q)\n")
    after = findings_in(path, [("oob_load", 3), ("race", 4), ("race", 5), ("oob_store", 5)])
    kept, hidden = apply(after, [Baseline(baseline)], ran("kernel"))
    assert [(f.kind, f.location.line) for f in kept] == [("race", 5), ("oob_store", 5)]
    assert {entry.reason for entry in hidden} == {"in baseline.json"}


def test_baseline_reports_unused_entries(tmp_path: Path) -> None:
    path, baseline = tmp_path / "kernel.py", tmp_path / "baseline.json"
    path.write_text("x = load(p)\nstore(q)\n")
    write_baseline(findings_in(path, [("oob_load", 1), ("race", 2)]), baseline)
    findings = findings_in(path, [("race", 2)])
    kept, _ = apply(findings, [Baseline(baseline)], ran("kernel"))
    assert [note.message for note in kept] == ["1 entry of the baseline matched no finding"]
    assert apply(findings, [Baseline(baseline)], ran("other"))[0] == []


def test_baseline_omits_notes_and_is_deterministic(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    note = Finding(kind="race", check="racecheck", severity="note", message="m", kernel="k")
    bare = Finding(kind="race", check="racecheck", severity="error", message="m", kernel="k")
    assert write_baseline([note, bare, bare], path) == 2
    entry = {"kind": "race", "kernel": "k", "source": "", "count": 2}
    assert json.loads(path.read_text()) == {"schema": "ttools.baseline/1", "findings": [entry]}


@given(lines=LINES, moved=LINES, data=st.data())
def test_baseline_is_a_multiset_of_sites(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[str],
    moved: list[str],
    data: st.DataObject,
) -> None:
    base = tmp_path_factory.getbasetemp()
    path, baseline = base / "lines.py", base / "lines.json"

    def run(text: list[str]) -> list[Finding]:
        path.write_text("\n".join(text))
        places = st.tuples(st.sampled_from(["race", "nan"]), st.integers(1, len(text) + 1))
        return findings_in(path, data.draw(st.lists(places, max_size=5)))

    before = run(lines)
    write_baseline(before, baseline)
    allowed = [site_of(finding_) for finding_ in before]
    after = run(moved)
    kept, _ = apply(after, [Baseline(baseline)], ran())
    expected = []
    for finding_ in after:
        if site_of(finding_) in allowed:
            allowed.remove(site_of(finding_))
        else:
            expected.append(finding_)
    assert kept == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not a baseline: Expecting value"),
        ("[]", "has schema None, not "),
        ("{}", "has schema None, not "),
        ('{"schema": "x", "findings": []}', "has schema 'x', not 'ttools.baseline/1'"),
        ('"x"', "has schema None, not "),
        (json.dumps({"schema": SCHEMA}), "damaged baseline: .* required field `findings`"),
        (
            json.dumps({"schema": SCHEMA, "findings": [1]}),
            r"damaged baseline: Expected `object`, got `int` - at `\$.findings\[0\]`",
        ),
    ],
)
def test_invalid_baselines_are_errors(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=why):
        Baseline(path)


@pytest.mark.parametrize(
    ("kind", "help"),
    [
        ("oob_lod", "did you mean `oob_load`?"),
        ("memcheck/oob_lod", "did you mean `memcheck/oob_load`?"),
        ("race", "remove it"),
        ("memcheck", "remove it"),
        ("memcheck/*", "remove it"),
    ],
)
def test_misspelled_kinds_have_a_suggestion(tmp_path: Path, kind: str, help: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(f'[[suppress]]\nkind = "{kind}"\nreason = "known"\n')
    (tmp_path / "kernel.py").write_text(
        f"def kernel(p):\n    p()  # ttools: ignore[{kind}] known\n"
    )
    launched = ran("kernel", location=f"{tmp_path / 'kernel.py'}:1")
    notes, _ = apply([], [SuppressionFile(path), InlineSuppressions()], launched)
    assert [note.help for note in notes] == [help, help]


@pytest.mark.parametrize("comment", ["ignore", "ignore oob_load known", "ignore[] known"])
def test_comments_without_kinds_are_reported(tmp_path: Path, comment: str) -> None:
    (tmp_path / "kernel.py").write_text(f"def kernel(p):\n    p()  # ttools: {comment}\n")
    launched = ran("kernel", location=f"{tmp_path / 'kernel.py'}:1")
    (note,), _ = apply([], [InlineSuppressions()], launched)
    assert note.message == "this comment names no kinds, so it is not honoured"
    assert note.kind == "bad_suppression"


def test_unreadable_and_unwritable_baselines_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        Baseline(tmp_path / "none.json")
    with pytest.raises(UsageError, match="cannot write"):
        write_baseline([], tmp_path / "none" / "baseline.json")
