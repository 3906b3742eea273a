"""Traits: what an operation does, as far as analyses ask, said once where it is declared.

As in xDSL and MLIR, a pass asks for a trait and not for a name, so that an operation that is added
is known to every pass.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Trait:
    """One trait; compared by identity, which is what makes asking for it cheap.

    Attributes:
        name: The name that messages show.
    """

    name: str

    def __repr__(self) -> str:
        return self.name


# ---- effects: an operation without any of them, and without PURE, may do anything
PURE = Trait("PURE")  #: computes its results and does nothing else, but for what its regions do
READS = Trait("READS")  #: reads memory at its address
LOADS = Trait("LOADS")  #: reads through pointers, in no order with other programs unless volatile
WRITES = Trait("WRITES")  #: writes memory at its address
ATOMIC = Trait("ATOMIC")  #: accesses memory atomically, so that programs can communicate
BARRIER = Trait("BARRIER")  #: threads of the program wait for each other; accesses stay on a side
EFFECT = Trait("EFFECT")  #: is seen from outside other than in memory: prints, asserts, waits

# ---- lanes
ELEMENTWISE = Trait("ELEMENTWISE")  #: lane i of a result comes from lane i of the operands
VIEW = Trait("VIEW")  #: renames coordinates: a lane of the result is one of an operand
SPREADS = Trait("SPREADS")  #: a view whose lanes keep their order, each of them once or repeated
GATHERS = Trait("GATHERS")  #: as a view, but which lane it is depends on data
FROM_COORDINATES = Trait("FROM_COORDINATES")  #: a lane follows from its coordinates alone
CROSS_LANE = Trait("CROSS_LANE")  #: a lane of the result depends on many lanes of the operands
COUNTS = Trait("COUNTS")  #: a lane of the result says how many of the operand's hold its number
CROSS_THREAD = Trait(
    "CROSS_THREAD"
)  #: hands values from thread to thread, as a rule over a barrier
COMBINES = Trait("COMBINES")  #: its region is a function of elements, called for many lanes
CAST = Trait("CAST")  #: the same value in another representation
CHOOSES = Trait("CHOOSES")  #: a lane of the result is one of an operand's, but for its sign

SELECTS = Trait("SELECTS")  #: a lane of the result is that of one of two operands, by a third one
CONSTANT = Trait("CONSTANT")  #: its value is written in the operation

# ---- integers
DISPLACES = Trait("DISPLACES")  #: moves a pointer by an offset
REGULAR = Trait("REGULAR")  #: of tiles built of ranges and uniform values it makes such a tile
DIVIDES = Trait("DIVIDES")  #: an integer quotient or remainder

INTEGER_UNIT = Trait("INTEGER_UNIT")  #: what a GPU's unit for integers does, one for each lane
COMMUTATIVE = Trait("COMMUTATIVE")  #: the order of its two operands makes no difference
LINEAR = Trait("LINEAR")  #: a sum, difference or product, or its operand in another width
WIDENS = Trait("WIDENS")  #: on operands that are extended by sign it is exact where it would wrap
RESIZES = Trait("RESIZES")  #: the same number, read with its sign, in another width
#: contiguity and divisibility of the result follow from the operands', as in Triton's
#: lib/Analysis/AxisInfo.cpp
AXIS_INFO = Trait("AXIS_INFO")

# ---- control
STRUCTURED = Trait("STRUCTURED")  #: its regions are code of the function, which ends in a yield
LOOP = Trait("LOOP")  #: a structured operation whose regions run any number of times
COUNTED = Trait("COUNTED")  #: a loop with bounds and a step, of one region
UNCOUNTED = Trait("UNCOUNTED")  #: a loop whose first region decides whether the second one runs
CONDITIONAL = Trait("CONDITIONAL")  #: a structured operation of whose regions one runs, once
BRANCH = Trait("BRANCH")  #: goes on in a successor block
TERMINATOR = Trait("TERMINATOR")  #: the last operation of its block
CALL = Trait("CALL")  #: runs another function of the module
FUNCTION = Trait("FUNCTION")  #: a function
