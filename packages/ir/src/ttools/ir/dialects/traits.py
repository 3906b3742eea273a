"""Traits: properties of operations on which analyses depend, stated in their declarations.

As in xDSL and MLIR, passes test for traits instead of names. Therefore a new operation works with
every pass.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Trait:
    """One trait; traits are compared by identity, which is fast.

    Attributes:
        name: Name of the trait, as messages show it.
    """

    name: str

    def __repr__(self) -> str:
        return self.name


# ---- effects: an operation without any of them, and without PURE, may do anything
PURE = Trait("PURE")  #: only computes its results, apart from the effects of its regions
READS = Trait("READS")  #: reads memory at its address
LOADS = Trait("LOADS")  #: reads through pointers; unordered with other programs unless volatile
WRITES = Trait("WRITES")  #: writes memory at its address
ATOMIC = Trait("ATOMIC")  #: accesses memory atomically, so that programs can communicate
BARRIER = Trait("BARRIER")  #: threads of the program wait for each other; accesses do not cross it
EFFECT = Trait("EFFECT")  #: has an effect other than on memory: prints, asserts, waits

# ---- lanes
ELEMENTWISE = Trait("ELEMENTWISE")  #: lane i of a result comes from lane i of the operands
VIEW = Trait("VIEW")  #: changes coordinates: each lane of the result is a lane of an operand
SPREADS = Trait("SPREADS")  #: a view that keeps the order of lanes, and may repeat each of them
GATHERS = Trait("GATHERS")  #: like a view, but data determine the lane of the operand
FROM_COORDINATES = Trait("FROM_COORDINATES")  #: a lane depends on its coordinates only
CROSS_LANE = Trait("CROSS_LANE")  #: a lane of the result depends on many lanes of the operands
COUNTS = Trait("COUNTS")  #: a lane of the result is the number of operand lanes equal to its index
CROSS_THREAD = Trait("CROSS_THREAD")  #: exchanges values between threads, usually with a barrier
COMBINES = Trait("COMBINES")  #: its region is a function of elements that is called for many lanes
CAST = Trait("CAST")  #: the same value in another representation
CHOOSES = Trait("CHOOSES")  #: a lane of the result is a lane of an operand, apart from its sign

SELECTS = Trait("SELECTS")  #: a condition selects each lane from one of two other operands
CONSTANT = Trait("CONSTANT")  #: its attribute `value` contains its result

# ---- integers
DISPLACES = Trait("DISPLACES")  #: moves a pointer by an offset
REGULAR = Trait("REGULAR")  #: its result is regular if its operands are (`domains/regularity.py`)
DIVIDES = Trait("DIVIDES")  #: an integer quotient or remainder

INTEGER_UNIT = Trait("INTEGER_UNIT")  #: executed by a GPU's integer unit, once for each lane
COMMUTATIVE = Trait("COMMUTATIVE")  #: the order of its two operands makes no difference
LINEAR = Trait("LINEAR")  #: a sum, difference or product, or a change of width
WIDENS = Trait("WIDENS")  #: gives the exact result, without wrapping, for sign-extended operands
RESIZES = Trait("RESIZES")  #: the same signed number in another width
#: contiguity and divisibility of the result follow from those of the operands, as in Triton's
#: lib/Analysis/AxisInfo.cpp
AXIS_INFO = Trait("AXIS_INFO")

# ---- control
STRUCTURED = Trait("STRUCTURED")  #: its regions run as part of the surrounding function
LOOP = Trait("LOOP")  #: a structured operation whose regions run any number of times
COUNTED = Trait("COUNTED")  #: a loop with bounds, a step, and one region
UNCOUNTED = Trait("UNCOUNTED")  #: a loop whose first region decides whether the second one runs
CONDITIONAL = Trait("CONDITIONAL")  #: a structured operation that runs one of its regions, once
BRANCH = Trait("BRANCH")  #: continues in a successor block
TERMINATOR = Trait("TERMINATOR")  #: the last operation of its block
CALL = Trait("CALL")  #: runs another function of the module
FUNCTION = Trait("FUNCTION")  #: a function
