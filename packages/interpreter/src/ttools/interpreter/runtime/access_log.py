"""Record types of the access log that native code writes, and the decoding of repeated records.

Several runs of adjacent bytes at equal distances, such as the rows of a tile, are logged as one
*repeated* record. For example, a tile of 32 rows of 64 bytes in a matrix with rows of 4096 bytes
becomes one record with 32 runs and the stride 4096.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ttools.interpreter.abi.probe_layout import (
    MORE_LANES_SHIFT,
    REPEAT_COUNT_BITS,
    REPEAT_LANE_BITS,
    REPEATED,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Footprints:
    """Logged accesses; each consists of one or more runs of adjacent bytes.

    Attributes:
        records: Array of `access_dtype`; `end` is the end of a record's last run.
        count: Number of runs of each record.
        stride: Bytes from the start of one run to the start of the next; 0 for a single run.
        lanes: Difference between the first lanes of consecutive runs.
    """

    records: NDArray[Any]
    count: NDArray[np.int64]
    stride: NDArray[np.int64]
    lanes: NDArray[np.int64]

    def take(self, chosen: NDArray[np.int64]) -> Footprints:
        return Footprints(
            # np.take copies whole records, several times faster than indexing does.
            self.records.take(chosen),
            self.count[chosen],
            self.stride[chosen],
            self.lanes[chosen],
        )

    def spans(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the starts and ends of runs of bytes that together cover the records.

        Adjacent tiles are joined before their rows are listed, and adjacent rows become one run.
        For example, the programs of a column sum access tiles with short rows, which together cover
        the matrix; the result is a single run instead of one run for each row of each tile.
        """
        import numpy as np

        from ttools.core.ranges import ranges

        start, end = (np.ascontiguousarray(self.records[name]) for name in ("start", "end"))
        several = np.flatnonzero(self.count > 1)
        if not len(several):
            return start, end
        plain = np.flatnonzero(self.count <= 1)
        several = several[np.lexsort((start[several], self.count[several], self.stride[several]))]
        count, stride = self.count[several], self.stride[several]
        begins = start[several]
        ends = end[several] - (count - 1) * stride  # end of the first run of each record
        apart = np.ones(len(several), np.bool_)
        apart[1:] = (
            (begins[1:] > ends[:-1]) | (count[1:] != count[:-1]) | (stride[1:] != stride[:-1])
        )
        first = np.flatnonzero(apart)
        begins, count, stride = begins[first], count[first], stride[first]
        ends = np.maximum.reduceat(ends, first)
        # If each row reaches the next one, all rows together are a single run.
        joined = ends - begins >= stride
        ends[joined] += ((count - 1) * stride)[joined]
        count[joined] = 1
        run, row = ranges(0, count)
        shift = run * stride[row]
        return (
            np.concatenate([start[plain], begins[row] + shift]),
            np.concatenate([end[plain], ends[row] + shift]),
        )

    def runs(self) -> NDArray[Any]:
        """Return one record of `access_dtype` for each run."""
        import numpy as np

        from ttools.core.ranges import ranges

        if not len(self.count) or int(self.count.max()) == 1:
            return self.records
        run, row = ranges(0, self.count)
        stride = self.stride[row]
        records = self.records.take(row)
        size = records["end"] - records["start"] - (self.count[row] - 1) * stride
        records["start"] += run * stride
        records["end"] = records["start"] + size
        records["lane"] += (run * self.lanes[row]).astype(np.int32)
        return records


def footprints_of(log: NDArray[Any]) -> Footprints:
    """Decode logged accesses.

    Args:
        log: Records of `access_dtype` as native code writes them.
    """
    import numpy as np

    flags = log["site"] & REPEATED
    if not flags.any():
        none = np.zeros(len(log), np.int64)
        return Footprints(log, none + 1, none, none)
    plain, words = flags == 0, log["seq"].astype(np.uint64)
    words[plain] = 1  # a record that is not repeated has one run and the stride 0
    log = log.copy()
    log["site"] ^= flags
    # In a repeated record, `seq` describes the runs instead of containing the number of
    # synchronising accesses. That number is 0, because native code writes repeated records only
    # before the first synchronising access of the launch.
    log["seq"] *= plain
    count = words & np.uint64((1 << REPEAT_COUNT_BITS) - 1)
    words >>= np.uint64(REPEAT_COUNT_BITS)
    lanes = words & np.uint64((1 << REPEAT_LANE_BITS) - 1)
    words >>= np.uint64(REPEAT_LANE_BITS)
    return Footprints(log, count.view(np.int64), words.view(np.int64), lanes.view(np.int64))


def split_log(log: NDArray[Any]) -> tuple[Footprints, NDArray[Any]]:
    """Return the plain accesses, and the synchronising accesses in the order of their effects.

    Args:
        log: Log entries, an array of `access_dtype`.
    """
    import numpy as np

    site = np.ascontiguousarray(log["site"])
    chosen = np.flatnonzero(site < 0)
    if not len(chosen):
        return footprints_of(log), no_syncs()
    chosen = chosen[np.argsort(log["seq"][chosen], kind="stable")]
    syncs = log.take(chosen).view(sync_dtype())
    syncs["site"] = -1 - syncs["site"]
    return footprints_of(log.take(np.flatnonzero(site >= 0))), syncs


@lru_cache(maxsize=1)
def no_footprints() -> Footprints:
    """Return an empty set of accesses."""
    import numpy as np

    return footprints_of(np.zeros(0, access_dtype()))


@lru_cache(maxsize=1)
def no_syncs() -> NDArray[Any]:
    """Return an empty array of synchronising accesses."""
    import numpy as np

    return np.zeros(0, sync_dtype())


@lru_cache(maxsize=1)
def access_dtype() -> Any:
    """Return the NumPy type of a logged access: a run of adjacent bytes.

    `lane` is the position of the first element in walk order, see `ProbeSite.positions`; the other
    elements follow one by one. `epoch` is the number of earlier synchronising accesses of the
    program, and `barrier` that of its earlier barriers. `seq` is the number of synchronising
    accesses in the launch when the run began; `more_lanes` describes its highest bits.
    """
    import numpy as np

    wide = [(name, np.int64) for name in ("start", "end", "program", "seq")]
    return np.dtype([*wide, *((n, np.int32) for n in ("site", "lane", "epoch", "barrier"))])


def more_lanes(records: NDArray[Any]) -> NDArray[np.int64]:
    """Return the number of lanes that each record represents in addition to those of its run.

    If neighbouring lanes access the same address, only one or two are logged, and the others are
    counted.

    Args:
        records: Array of `access_dtype` without repeated records.
    """
    counts: NDArray[np.int64] = records["seq"] >> MORE_LANES_SHIFT
    return counts


@lru_cache(maxsize=1)
def sync_dtype() -> Any:
    """Return the NumPy type of a logged synchronising access; `probe_layout` defines `flags`."""
    import numpy as np

    wide = [(name, np.int64) for name in ("address", "end", "program", "seq")]
    return np.dtype([*wide, *((n, np.int32) for n in ("site", "epoch", "barrier", "flags"))])
