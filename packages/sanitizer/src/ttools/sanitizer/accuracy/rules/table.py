"""The table of all rules."""

from __future__ import annotations

from ttools.sanitizer.accuracy.decisions import LOGIC
from ttools.sanitizer.accuracy.follower import RuleTable
from ttools.sanitizer.accuracy.rules import (
    accesses,
    comparisons,
    elementwise,
    movement,
    products,
    reductions,
)

_MODULES = (elementwise, comparisons, movement, reductions, products, accesses)
TABLE = RuleTable(
    rules={name: rule for module in _MODULES for name, rule in module.RULES.items()},
    needed=frozenset(
        (
            "create_fp_to_si",
            "create_fp_to_ui",
            "create_atomic_rmw",
            "create_bitcast",
            *comparisons.COMPARISONS,
        )
    ),
    on_truths=frozenset(
        (
            "create_select",
            "create_int_cast",
            "create_load",
            "create_masked_load",
            *(
                f"create_{name}"
                for name in (*LOGIC, "splat", "broadcast", "expand_dims", "reshape")
            ),
            *(f"create_{name}" for name in ("unsplat", "trans")),
        )
    ),
    silent=frozenset(
        (
            "create_atomic_poll",
            "create_poison",
            "create_descriptor_load",
            "create_python_reduction",
            "create_descriptor_gather",
            "create_tensor_pointer_load",
        )
    ),
)
