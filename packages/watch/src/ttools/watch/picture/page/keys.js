// Keyboard control: arrow keys point at cells like a mouse; Enter and the space bar click.
const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
const tables = {
  map: () => { const map = launchNow().maps[state.tensor]; return map && [map.row_cells, map.column_cells, ...sizeOf(map)]; },
  grid: () => [layout.down, layout.across, layout.size, layout.size],
  "value-cells": () => pointedAt && [pointedAt.value.rows, pointedAt.value.columns, pointedAt.size, pointedAt.height],
  "value-bins": () => pointedAt?.value.bins && [1, pointedAt.value.bins.length, 320 / pointedAt.value.bins.length, 90],
};
const pointed = {};
for (const [id, table] of Object.entries(tables)) {
  const canvas = $(id);
  const send = (kind, [row, column], [, , width, height]) => {
    const box = canvas.getBoundingClientRect();
    const [right, down] = scaleOf(canvas);
    canvas.dispatchEvent(new MouseEvent(kind, {
      bubbles: true,
      clientX: box.left + canvas.clientLeft + (column + 0.5) * width * right,
      clientY: box.top + canvas.clientTop + (row + 0.5) * height * down,
    }));
  };
  canvas.addEventListener("keydown", (event) => {
    const size = table();
    const move = moves[event.key];
    const clicks = event.key === "Enter" || event.key === " ";
    if (!size || !(move || clicks)) return;
    event.preventDefault();
    const within = (at, most) => Math.max(0, Math.min(most - 1, at));
    const [row, column] = pointed[id] ?? [0, -(event.key === "ArrowRight")];
    pointed[id] = [within(row + (move?.[0] ?? 0), size[0]), within(column + (move?.[1] ?? 0), size[1])];
    send(clicks ? "click" : "mousemove", pointed[id], size);
  });
}
