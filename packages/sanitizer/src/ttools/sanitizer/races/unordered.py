"""Conflicts between programs of a launch without synchronisation: every meeting is one.

The answer does not depend on the order in which the programs ran.
"""

import numpy as np

from ttools.sanitizer.races.classes import MAY_CONFLICT, STORE, clashes
from ttools.sanitizer.races.overlap import cluster_heads, meetings
from ttools.sanitizer.races.records import Bools, Ints, Records, column
from ttools.sanitizer.races.rows import OVERLAPPING_STORE, RACE, Rows


def suspects(records: Records, classes: Ints) -> Bools:
    """Records in a cluster that several programs reach and whose classes may conflict.

    Args:
        records: Sorted by start, none empty.
        classes: of each site.
    """
    heads = cluster_heads(records["start"], records["end"])
    length = np.diff(np.append(heads, len(records)))
    program = records["program"]
    several = np.minimum.reduceat(program, heads) != np.maximum.reduceat(program, heads)
    kinds = np.bitwise_or.reduceat(classes[records["site"]], heads)
    return np.repeat(several & MAY_CONFLICT[kinds], length)


def unordered_rows(records: Records, classes: Ints) -> Rows:
    """Every pair of sites at which different programs meet.

    Args:
        records: Sorted by start.
        classes: of each site.
    """
    start, end, site, program = (
        column(records, name) for name in ("start", "end", "site", "program")
    )
    found = meetings(start, end, site, program, clashes(classes))
    both = classes[site[found.first]] & classes[site[found.second]]
    kind = np.where(both == STORE, OVERLAPPING_STORE, RACE)
    nothing = np.full(len(kind), -1)
    return Rows(kind, found.start, found.end, found.first, found.second, nothing)
