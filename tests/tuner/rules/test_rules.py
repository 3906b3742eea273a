"""Rules from stores: few configurations, a readable module, and their regret."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from ttools.core.errors import UsageError
from ttools.tuner import heuristics
from ttools.tuner.measure.trial import Trial
from ttools.tuner.rules.document import read_rules, read_tree, rules_text
from ttools.tuner.rules.features import (
    Feature,
    facts_of,
    features_of,
    tile_features_of,
    tile_sides,
)
from ttools.tuner.rules.python import module_text
from ttools.tuner.rules.synthesis import KernelRules, Leaf, Split, synthesise
from ttools.tuner.store.problem import Problem
from ttools.tuner.store.store import TuningEntry

#: Type checkers do not know that the module is callable.
decorator: Any = heuristics


def entry(costs: dict[int, float | None], dtype: str = "float32", **key: int) -> TuningEntry:
    """Return a tuning with the time of each block; None for failed configurations."""
    trials = [
        Trial(
            values={"BLOCK": block, "num_warps": 4},
            status="failed" if cost is None else "ok",
            samples=() if cost is None else (cost,) * 9,
        )
        for block, cost in costs.items()
    ]
    return TuningEntry(
        problem=Problem(
            kernel="add_kernel",
            source="s",
            key=json.dumps({**key, "dtypes": [dtype]}),
            device="cpu: this one, 2 threads",
            versions="v",
        ),
        trials=trials,
    )


def by_size(n: int, dtype: str = "float32") -> TuningEntry:
    """Return a tuning in which small blocks are best for float32 up to 10,000 elements."""
    small = n <= 10_000 and dtype == "float32"
    return entry({64: 1.0 if small else 2.0, 1024: 3.0 if small else 1.0, 32: None}, dtype, n=n)


SIZES = (100, 1000, 5000, 50_000, 500_000, 5_000_000)


def test_a_threshold_is_found_between_the_sizes() -> None:
    (rules,) = synthesise([by_size(n) for n in SIZES])
    assert isinstance(rules.tree, Split)
    assert rules.tree.feature == Feature("number", ("n",))
    assert 5000 <= rules.tree.at_most < 50_000
    assert (rules.tree.yes, rules.tree.no) != (Leaf(0), Leaf(0))
    assert {config["BLOCK"] for config in rules.configs} == {64, 1024}
    assert (rules.regret.mean, rules.regret.worst) == (0.0, 0.0)
    # Without 50,000, the threshold is between 5,000 and 500,000, just above 50,000.
    assert rules.regret.held_out_worst == pytest.approx(1.0)
    assert [rules.choose({"n": n})["BLOCK"] for n in (7, 9_999_999)] == [64, 1024]
    assert "slower than the best by 0.0% on average" in str(rules)


def test_held_out_regret_is_measured_on_unseen_shapes() -> None:
    (rules,) = synthesise([by_size(100), by_size(1000), by_size(5_000_000)])
    assert rules.regret.worst == 0.0
    assert rules.regret.held_out_worst == pytest.approx(1.0), (
        "the rule was made from small shapes only"
    )


def test_rules_depend_on_dtypes() -> None:
    entries = [by_size(n, dtype) for n in SIZES[:3] for dtype in ("float32", "float16")]
    (rules,) = synthesise(entries)
    assert rules.regret.worst == 0.0
    for entry in entries:
        best = min((t for t in entry.trials if t.cost), key=lambda t: t.cost or 0.0)
        assert rules.choose(facts_of(entry.problem)) == best.values
    text = module_text([rules])
    assert "_dtypes(args)[0] != 'float16'" in text or "_dtypes(args)[0] != 'float32'" in text


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 10**6), st.lists(st.floats(1, 3), min_size=9, max_size=9)),
        min_size=1,
        max_size=7,
        unique_by=lambda pair: pair[0],
    )
)
def test_regret_is_the_cost_of_the_choices(tunings: list[tuple[int, list[float]]]) -> None:
    entries = [entry(dict(enumerate(costs)), n=n) for n, costs in tunings]
    (rules,) = synthesise(entries)
    assert 1 <= len(rules.configs) <= 6
    slowdowns = []
    for (n, costs), item in zip(tunings, entries, strict=True):
        chosen = rules.choose(facts_of(item.problem))["BLOCK"]
        slowdowns.append(costs[chosen] / min(costs))
        assert n > 0
    assert rules.regret.worst == pytest.approx(max(slowdowns) - 1)
    mean = math.exp(sum(map(math.log, slowdowns)) / len(slowdowns)) - 1
    assert rules.regret.mean == pytest.approx(mean, abs=1e-9)
    best_alone = min(max(costs[place] / min(costs) for _, costs in tunings) for place in range(9))
    assert rules.regret.worst <= max(3.0, best_alone)


def test_the_module_is_python_and_runs(tmp_path: Path) -> None:
    (rules,) = synthesise([by_size(n) for n in SIZES])
    text = module_text([rules])
    scope: dict = {}
    exec(compile(text, "rules.py", "exec"), scope)
    assert scope["choose_for_add_kernel"]({"n": 100}) == {"BLOCK": 64, "num_warps": 4}
    assert scope["choose_for_add_kernel"]({"n": 10**7})["BLOCK"] == 1024
    assert "For shapes left out of the fit: 12.2% on average, 100.0% at worst." in text
    assert "    Measured: n from 100 to 5,000,000.\n" in text
    launch(scope["add_kernel_heuristics"](add_kernel))


def test_rules_from_json_decorate_a_kernel(tmp_path: Path) -> None:
    path = tmp_path / "rules.json"
    ruleset = synthesise([by_size(n) for n in SIZES])
    path.write_text(rules_text(ruleset))
    assert list(read_rules(path).values()) == ruleset
    assert ruleset[0].ranges == {"n": (100, 5_000_000)}
    (row,) = json.loads(path.read_text())["rules"]
    del row["ranges"]  # older files have no ranges
    older = tmp_path / "older.json"
    older.write_text(json.dumps({"schema": "ttools.tuning-rules/1", "rules": [row]}))
    assert read_rules(older)["add_kernel"].ranges == {}
    launch(decorator(path)(add_kernel))
    with pytest.raises(UsageError, match="no rules for `other_kernel`, only for add_kernel"):
        decorator(str(path))(other_kernel)


def test_values_work_as_in_triton_heuristics() -> None:
    launch(decorator({"BLOCK": lambda args: 64})(add_kernel))
    assert heuristics.elementwise_block(1 << 20) == 2048


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"schema": "x"}', '{"schema": "ttools.tuning-rules/1"}']
)
def test_files_without_rules(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rules.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"rules\.json"):
        read_rules(path)
    with pytest.raises(UsageError, match="cannot read the file of rules"):
        read_rules(tmp_path / "none.json")


def question(**changes: Any) -> dict[str, Any]:
    leaf = {"config": 0}
    feature = {"kind": "number", "names": ["n"], "value": None, **changes}
    return {"feature": feature, "at_most": 3, "yes": leaf, "no": leaf}


SPLIT = {"feature": {"kind": "number", "names": ["n"], "value": None}, "at_most": 3}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tunings": "3"}, r"Expected `int`, got `str` - at `\$.rules\[0\].tunings`"),
        ({"tree": {"config": 2}}, r"there is no configuration 2; there are 2 - at `\$.rules\[0\]`"),
        ({"tree": {"config": "0"}}, r"`\$.config` - at `\$.rules\[0\].tree`"),
        ({"tree": {**SPLIT, "yes": {"config": 0}}}, r"missing required field `no`"),
        ({"tree": 3}, r"Expected `object`, got `int`"),
        ({"ranges": {"n": [1]}}, r"`array` of length 2, got 1 - at `\$.rules\[0\].ranges"),
        ({"regret": {"mean": math.nan}}, r"`\$.rules\[0\].regret.mean`"),
        ({"tree": question(kind="what")}, r"Invalid enum value 'what'"),
        ({"tree": question(names=[])}, r"a feature of kind number does not name an argument"),
        ({"tree": question(kind="waves", value=[0])}, r"waves needs a tile size for each name"),
    ],
)
def test_damaged_rules_are_reported_with_their_place(
    tmp_path: Path, changes: dict[str, Any], sentence: str
) -> None:
    path = tmp_path / "rules.json"
    data = json.loads(rules_text(synthesise([by_size(n) for n in SIZES])))
    data["rules"][0].update(changes)
    path.write_text(json.dumps(data))
    with pytest.raises(UsageError, match=f"damaged file of rules: .*{sentence}"):
        read_rules(path)


# ---- the tiles of a GPU's last wave
H200 = "cuda: NVIDIA H200 (sm_90)"


def product_tuning(m: int, n: int, device: str = H200, **groups: int) -> TuningEntry:
    """Return a tuning in which large tiles are best if they fill the last wave of the GPU."""
    tiles = -(-m // 128) * -(-n // 128) * math.prod(groups.values())
    turns = -(-tiles // 132)
    costs = {128: 2.0 * turns, 64: 0.6 * -(-4 * tiles // 132)}
    trials = [
        Trial(values={"BLOCK_M": side, "BLOCK_N": side}, status="ok", samples=(cost,) * 9)
        for side, cost in costs.items()
    ]
    key = json.dumps({**groups, "M": m, "N": n, "dtypes": ["float16"]})
    problem = Problem(kernel="mm_kernel", source="s", key=key, device=device, versions="v")
    return TuningEntry(problem=problem, trials=trials)


SHAPES = [(128 * m, 128 * n) for m in (4, 8, 11, 12, 13, 23) for n in (4, 8, 12, 13, 16, 24)]


@pytest.fixture(scope="module")
def product_rules() -> Any:
    (rules,) = synthesise([product_tuning(*shape) for shape in SHAPES])
    return rules


def test_rules_use_the_fill_of_the_last_wave(product_rules: Any) -> None:
    rules = product_rules
    features = {split.feature.kind for split in splits(rules.tree)}
    assert features & {"waves", "fill"}
    assert rules.multiprocessors == 132
    assert rules.regret.held_out_mean < 0.05
    blind = synthesise([product_tuning(*shape, device="a new GPU") for shape in SHAPES])[0]
    assert not {split.feature.kind for split in splits(blind.tree)} & {"waves", "fill"}
    assert blind.regret.held_out_mean > rules.regret.held_out_mean


def splits(tree: Any) -> list[Split]:
    return [tree, *splits(tree.yes), *splits(tree.no)] if isinstance(tree, Split) else []


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9000), st.integers(1, 9000))
def test_python_and_json_make_the_same_choices(product_rules: Any, m: int, n: int) -> None:
    text = module_text([product_rules])
    scope: dict[str, Any] = {}
    exec(compile(text, "rules.py", "exec"), scope)
    (row,) = json.loads(rules_text([product_rules]))["rules"]
    again = msgspec.convert(row, KernelRules, dec_hook=read_tree)
    assert again == product_rules
    facts = {"M": m, "N": n, "multiprocessors": 132}
    assert scope["choose_for_mm_kernel"]({"M": m, "N": n}) == again.choose(facts)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 64), st.integers(1, 4000), st.integers(1, 4000)),
        min_size=2,
        max_size=5,
    ),
    st.sampled_from(("groups", "Batch", "heads", "experts")),
)
def test_each_of_several_similar_groups_has_its_own_tiles(
    shapes: list[tuple[int, int, int]], name: str
) -> None:
    facts = [{name: c, "M": m, "N": n, "multiprocessors": 132} for c, m, n in shapes]
    features = tile_features_of(facts, [{"BLOCK_M": 128, "BLOCK_N": 64}])
    grids = [c * -(-m // 128) * -(-n // 64) for c, m, n in shapes]
    for feature in features:
        names = dict(zip(feature.names, feature.sides, strict=True))
        assert names[name] == 1
        for own in facts:
            count = math.prod(int(-(-own[axis] // side)) for axis, side in names.items())
            waves = -(-count // 132)
            wanted = waves if feature.kind == "waves" else count / (waves * 132)
            assert feature.answer(own) == pytest.approx(wanted)
    if (
        len(set(grids)) > 1
        and min(len({m for _, m, _ in shapes}), len({n for *_, n in shapes})) > 1
    ):
        assert {feature.names for feature in features} == {("M", "N", name)}


def test_configurations_without_tiles_have_no_tile_features() -> None:
    facts = [{"n": 4, "multiprocessors": count} for count in (108, 132)]
    assert tile_features_of(facts, [{"BLOCK": 64}, {"BLOCK": 128}]) == []


def test_rules_of_grouped_products_use_the_tiles_of_all_groups() -> None:
    shapes = [(g, 128 * m, 128 * n) for g in (1, 3, 8) for m in (4, 11) for n in (4, 12, 16)]
    (rules,) = synthesise([product_tuning(m, n, groups=g) for g, m, n in shapes])
    features = [split.feature for split in splits(rules.tree)]
    assert any(
        feature.kind in ("waves", "fill") and "groups" in feature.names for feature in features
    )
    assert rules.regret.held_out_mean is not None
    assert rules.regret.held_out_mean < 0.05
    text = module_text([rules])
    assert '(args["groups"], 1)' in text
    scope: dict[str, Any] = {}
    exec(compile(text, "rules.py", "exec"), scope)
    for g, m, n in shapes:
        facts = {"groups": g, "M": m, "N": n}
        wanted = rules.choose({**facts, "multiprocessors": 132})
        assert scope["choose_for_mm_kernel"](facts) == wanted


def test_sides_of_tiles_are_recognised_by_their_names() -> None:
    products = {"BLOCK_SIZE_M": 1, "BLOCK_SIZE_N": 1, "GROUP_SIZE_M": 1, "num_warps": 4}
    assert tile_sides(["M", "N", "K"], products) == {"M": "BLOCK_SIZE_M", "N": "BLOCK_SIZE_N"}
    rows = {"BLOCK": 1, "ROWS": 1}
    assert tile_sides(["rows", "columns"], rows) == {"rows": "ROWS", "columns": "BLOCK"}
    assert tile_sides(["n"], {"XBLOCK": 1}) == {"n": "XBLOCK"}
    assert tile_sides(["length", "head"], {"BLOCK": 1}) == {}


def test_tunings_without_times_make_no_rules() -> None:
    with pytest.raises(UsageError, match="no configuration was timed"):
        synthesise([entry({64: None}, n=3)])


def test_features_with_one_value_are_no_questions() -> None:
    facts = [{"m": 4, "n": 4, "k": 1, "device": "a"}, {"m": 2, "n": 8, "k": 1, "device": "b"}]
    assert [(f.kind, f.names) for f in features_of(facts)] == [
        ("number", ("m",)),
        ("number", ("n",)),
        ("equals", ("device",)),
    ]


@triton.jit
def add_kernel(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offs, tl.load(x_ptr + offs, mask=offs < n) + 1, mask=offs < n)


@triton.jit
def other_kernel(x_ptr):
    pass


def launch(kernel) -> None:
    x = torch.zeros(100)
    kernel[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, 100)
    assert x.tolist() == [1.0] * 100
