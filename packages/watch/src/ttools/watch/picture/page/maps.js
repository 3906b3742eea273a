// Maps that show which programs load and store the elements of a tensor, and the grid of programs.
const verbs = { load: "loaded", store: "stored", atomic: "updated atomically" };
function bounds(cells, extent, n) {
  return [Math.ceil(n * extent / cells), Math.ceil((n + 1) * extent / cells)];
}
// The number of elements of a cell; the last row of a vector may be incomplete.
function elementsOf(map, row, column) {
  const [top, bottom] = bounds(map.row_cells, map.rows, row);
  const [left, right] = bounds(map.column_cells, map.columns, column);
  if (map.length === null) return (bottom - top) * (right - left);
  return Math.max(0, Math.min(map.length, top * map.columns + right) - (top * map.columns + left));
}
function sizeOf(map) {
  const width = Math.max(3, Math.min(20, Math.floor(1024 / map.column_cells)));
  const height = Math.max(3, Math.min(20, Math.floor(640 / map.row_cells)));
  return map.length === null && map.rows > 1 ? [Math.min(width, height), Math.min(width, height)] : [width, height];
}
function ownCells(map, kind, program) {
  const runs = map.own[program]?.[kind] ?? [];
  const cells = new Set();
  for (let n = 0; n < runs.length; n += 2)
    for (let k = 0; k < runs[n + 1]; k += 1) cells.add(runs[n] + k);
  return cells;
}
function drawMap(map, kind, slice, colouring, program) {
  const held = map.kinds[kind];
  const [width, height] = sizeOf(map);
  const [rows, columns] = [map.row_cells, map.column_cells];
  const context = prepare($("map"), columns * width, rows * height);
  const own = ownCells(map, kind, program);
  const first = slice * rows * columns;
  let most = 1;
  for (let n = 0; n < rows * columns; n += 1) {
    const elements = elementsOf(map, Math.floor(n / columns), n % columns);
    if (elements) most = Math.max(most, (held?.elements[first + n] ?? 0) / elements);
  }
  let drawn = 0;
  for (let n = 0; n < rows * columns; n += 1) {
    const [row, column] = [Math.floor(n / columns), n % columns];
    const elements = elementsOf(map, row, column);
    const low = held ? held.low[first + n] : -1;
    if (!elements) continue;
    if (low < 0) context.fillStyle = tone("untouched");
    else if (colouring === "times") context.fillStyle = scaleColour(0.5 + 0.5 * held.elements[first + n] / elements / most);
    else context.fillStyle = low === held.high[first + n] ? programColour(low) : sharedColour(low, held.high[first + n]);
    context.fillRect(column * width, row * height, width, height);
    drawn += low >= 0;
  }
  context.strokeStyle = tone("chosen");
  context.lineWidth = 2;
  context.beginPath();
  for (const cell of own) {
    const n = cell - first;
    if (n < 0 || n >= rows * columns) continue;
    const [x, y] = [(n % columns) * width, Math.floor(n / columns) * height];
    const edge = (dx, dy, inside) => inside && own.has(cell + dx + dy * columns);
    if (!edge(-1, 0, n % columns > 0)) { context.moveTo(x, y); context.lineTo(x, y + height); }
    if (!edge(1, 0, n % columns < columns - 1)) { context.moveTo(x + width, y); context.lineTo(x + width, y + height); }
    if (!edge(0, -1, n >= columns)) { context.moveTo(x, y); context.lineTo(x + width, y); }
    if (!edge(0, 1, n < (rows - 1) * columns)) { context.moveTo(x, y + height); context.lineTo(x + width, y + height); }
  }
  context.stroke();
  $("map").dataset.drawn = drawn;
  $("map").dataset.own = own.size;
  $("map-summary").textContent = summaryOf(map, kind, first);
}
function summaryOf(map, kind, first) {
  const held = map.kinds[kind];
  const [rows, columns] = [map.row_cells, map.column_cells];
  let [untouched, repeated, total, all, part] = [0, 0, 0, 0, 0];
  for (let n = 0; n < rows * columns; n += 1) {
    const elements = elementsOf(map, Math.floor(n / columns), n % columns);
    const number = held ? held.elements[first + n] : 0;
    all += elements;
    total += number;
    if (!number) untouched += elements;
    else if (number < elements) part += elements;
    else if (number > elements) repeated += elements;
  }
  const shape = `[${map.shape.join(", ")}]`;
  const what = map.as_stored ? "in the order of memory (its strides overlap)" : shape;
  const parts = [`${map.name} ${what}: ${count(all)} elements${map.slices.length > 1 ? " in this slice" : ""}`,
    `${count(total)} ${verbs[kind]}`];
  const exact = all === rows * columns;
  if (repeated) parts.push(`${count(repeated)} of them ${exact ? "more than once" : "in cells with repeated accesses"}`);
  if (part) parts.push(`${count(part)} of them in partly accessed cells`);
  parts.push(`${count(untouched)} never`);
  return parts.join("; ");
}
function describeCell(map, kind, slice, [row, column]) {
  const n = (slice * map.row_cells + row) * map.column_cells + column;
  const elements = elementsOf(map, row, column);
  const held = map.kinds[kind];
  let where;
  if (map.length !== null) {
    const start = bounds(map.row_cells, map.rows, row)[0] * map.columns + bounds(map.column_cells, map.columns, column)[0];
    if (!elements) return "";
    where = `${elements > 1 ? "elements" : "element"} ${range(start, start + elements - 1)}`;
  } else {
    const ends = (cells, extent, at) => { const [a, b] = bounds(cells, extent, at); return range(a, b - 1); };
    where = `row ${ends(map.row_cells, map.rows, row)}, column ${ends(map.column_cells, map.columns, column)}`;
  }
  const low = held ? held.low[n] : -1;
  if (low < 0) return `${where}: never ${verbs[kind]}`;
  const who = low === held.high[n] ? `by program ${count(low)}` : `by programs from ${count(low)} to ${count(held.high[n])}`;
  const times = held.elements[n] / elements;
  const often = times === 1 ? "once each" : elements === 1 ? `${times} times` : `${times.toFixed(2)} times each on average`;
  return `${where}: ${verbs[kind]} ${who}, ${often}`;
}
// The layout of the grid: x from left to right, y downwards, and one plane of z below the other. A
// long grid of one dimension is divided into rows.
function gridLayout(grid) {
  const [x, y, z] = grid;
  const columns = y * z === 1 && x > 64 ? 64 : x;
  const rows = y * z === 1 ? Math.ceil(x / columns) : y * z;
  const across = Math.min(columns, 96);
  const down = Math.min(rows, 96);
  const size = Math.max(3, Math.min(22, Math.floor(330 / Math.max(across, down))));
  return { columns, rows, across, down, size, total: x * y * z };
}
// The first and the last program that a cell represents.
function programsOf(layout, row, column) {
  const [top, bottom] = bounds(layout.down, layout.rows, row);
  const [left, right] = bounds(layout.across, layout.columns, column);
  return [top * layout.columns + left, Math.min(layout.total, (bottom - 1) * layout.columns + right) - 1];
}
function cellOfProgram(layout, program) {
  const [row, column] = [Math.floor(program / layout.columns), program % layout.columns];
  return [Math.floor(row * layout.down / layout.rows), Math.floor(column * layout.across / layout.columns)];
}
function drawGrid(launch, followed, program) {
  const layout = gridLayout(launch.grid);
  const context = prepare($("grid"), layout.across * layout.size, layout.down * layout.size);
  for (let row = 0; row < layout.down; row += 1) {
    for (let column = 0; column < layout.across; column += 1) {
      const [first] = programsOf(layout, row, column);
      if (first >= layout.total) continue;
      context.fillStyle = programColour(first);
      context.fillRect(column * layout.size, row * layout.size, layout.size - 1, layout.size - 1);
    }
  }
  context.lineWidth = 2;
  context.strokeStyle = tone("accent");
  for (const one of followed) {
    const [row, column] = cellOfProgram(layout, one);
    context.strokeRect(column * layout.size + 1, row * layout.size + 1, layout.size - 3, layout.size - 3);
  }
  const [row, column] = cellOfProgram(layout, program);
  context.fillStyle = tone("chosen");
  context.fillRect(column * layout.size, row * layout.size, layout.size - 1, layout.size - 1);
  return layout;
}
