"""Footprints of whole tiles: rows of adjacent bytes in equal steps, told to the runtime at once.

The runtime does with the rows what it does with those that chunks log one after the other. Must not
know how a tile is found to be inside its memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ttools.interpreter.abi.module import ProbeSite
from ttools.interpreter.emit.function import Emitter
from ttools.interpreter.emit.instruments.probe import call
from ttools.interpreter.emit.instruments.tile_hull import Hull
from ttools.interpreter.emit.instruments.whole_tile import WholeTile


@dataclass(frozen=True)
class _Axis:
    """Some axes of a tile that are walked as one.

    Attributes:
        step: bytes from one coordinate to the next, an i64.
        lanes: by how many lanes of the walk they are apart.
        extent: how many coordinates there are.
        first: the lowest that the mask leaves, an i64.
        end: the one past the highest.
    """

    step: str
    lanes: int
    extent: int
    first: str
    end: str

    @property
    def is_whole(self) -> bool:
        return (self.first, self.end) == ("0", str(self.extent))

    def goes_on(self, outer: _Axis) -> bool:
        """Whether the coordinates of an outer axis continue the steps of this one."""
        return (
            self.is_whole
            and self.step.lstrip("-").isdigit()
            and outer.step == str(int(self.step) * self.extent)
            and outer.lanes == self.lanes * self.extent
        )

    def joined(self, e: Emitter, outer: _Axis) -> _Axis:
        """Both as one, if the outer one continues the steps of this one."""
        first, end = (e.imul("i64", n, str(self.extent)) for n in (outer.first, outer.end))
        extent = self.extent * outer.extent
        return replace(self, extent=extent, first=first, end=end)


def record_tile(e: Emitter, site: ProbeSite, number: int, whole: WholeTile) -> WholeTile:
    """Emits, where the builder stands, the footprint of a tile if it is inside.

    Args:
        site: of the access.
        number: of the site.
        whole: what is known of the tile.

    Returns:
        The same, `logged` where the footprint has been emitted: where the mask is understood, and
        the tile is rows in equal steps.
    """
    axes = _axes(e, site, whole.hull) if whole.exact else None
    if axes is None:
        return whole
    b, (run, rows) = e.b, axes
    start, lane = whole.hull.form.base, "0"
    for axis in (run, rows):
        start = e.iadd("i64", start, e.imul("i64", axis.step, axis.first))
        lane = e.iadd("i64", lane, e.imul("i64", str(axis.lanes), axis.first))
    active = whole.inside
    if whole.hull.idle is not None:
        active = b.emit(f"and i1 {active}, {b.emit(f'xor i1 {whole.hull.idle}, true')}")
    count = b.emit(f"select i1 {active}, i64 {e.isub('i64', rows.end, rows.first)}, i64 0")
    bytes_ = e.imul("i64", e.isub("i64", run.end, run.first), str(site.size))
    arguments = [("i32", str(number)), ("i64", start), ("i64", bytes_)]
    arguments += [("i32", e.convert_int(lane, "i64", "i32")), ("i64", count), ("i64", rows.step)]
    call(b, "footprint_tile", "void", [*arguments, ("i32", str(rows.lanes))])
    return replace(whole, logged=True)


def _axes(e: Emitter, site: ProbeSite, hull: Hull) -> tuple[_Axis, _Axis] | None:
    """A tile as rows of adjacent elements and the steps between them; None if it is not such."""
    lanes, axes = 1, [_Axis(str(site.size), 1, 1, "0", "1")]
    for n in reversed(site.walk):
        extent, step = site.shape[n], hull.form.steps[n]
        first, end = hull.box.firsts.get(n, "0"), hull.box.ends.get(n, str(extent))
        axis = _Axis(step, lanes, extent, first, end)
        lanes *= extent
        if extent == 1:
            continue  # a mask that leaves nothing of it leaves nothing at all
        if axes[-1].goes_on(axis):
            axes[-1] = axes[-1].joined(e, axis)
        elif len(axes) == 2 or not _is_row_step(axis, axes[0]):
            return None
        else:
            axes.append(axis)
    run, rows = (*axes, _Axis("0", 0, 1, "0", "1"))[:2]
    return run, rows


def _is_row_step(rows: _Axis, run: _Axis) -> bool:
    """Whether rows may follow each other so: elements that lie alone must be seen to be apart."""
    return run.extent > 1 or (rows.step.isdigit() and int(rows.step) > int(run.step))
