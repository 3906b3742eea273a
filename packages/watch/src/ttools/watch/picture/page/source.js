// Draws the source with the values of variables in one program and iteration, and one value in
// detail.
const isPrefix = (short, long) => short.every((iteration, n) => iteration === long[n]);
// The iterations of a program with recorded values, as lists of loop indices. Lists that are only
// the beginning of another list are left out.
function iterationsOf(values) {
  const found = [];
  for (const value of values) {
    if (value.iterations.length && !found.some((iterations) => String(iterations) === String(value.iterations)))
      found.push(value.iterations);
  }
  return found.filter((iterations) => !found.some((other) => other.length > iterations.length && isPrefix(iterations, other)));
}
// Maps each assignment to its value in an iteration: the latest one of that iteration, or the one
// before the loop.
function heldIn(values, iterations) {
  const held = new Map();
  for (const value of values) if (isPrefix(value.iterations, iterations)) held.set(value.assignment, value);
  return held;
}
function drawSource(launch, program, iterations, choose, chosenPlace) {
  const values = launch.values[program] ?? [];
  const held = heldIn(values, iterations);
  const inner = new Set(values.filter((v) => v.iterations.length).map((v) => v.assignment));
  const byLine = new Map();
  launch.assignments.forEach((assignment, number) => {
    const key = `${assignment.file}:${assignment.line}`;
    byLine.set(key, [...(byLine.get(key) ?? []), number]);
  });
  const chip = (number) => {
    const assignment = launch.assignments[number];
    const value = held.get(number);
    const button = document.createElement("button");
    button.className = "chip";
    button.dataset.name = assignment.name;
    button.dataset.line = assignment.line;
    button.setAttribute("aria-pressed", String(number === chosenPlace));
    const name = document.createElement("b");
    name.textContent = assignment.name;
    const text = document.createElement("span");
    const calls = assignment.where.includes("<") ? ` (${assignment.where})` : "";
    text.textContent = value ? ` ${assignment.type}${calls}  ${value.text}` :
      ` ${assignment.type}${calls}  ${inner.has(number) ? "not in this iteration" : "not in this program"}`;
    if (!value) text.className = "absent";
    button.append(name, text);
    button.addEventListener("click", () => choose(number));
    return button;
  };
  const shown = new Set();
  const blocks = launch.functions.map((fn) => {
    const block = document.createElement("section");
    block.className = "function";
    const title = document.createElement("h3");
    title.textContent = `${fn.name}:${fn.first}`;
    block.append(title);
    fn.lines.forEach((pieces, n) => {
      const line = document.createElement("div");
      line.className = "line";
      const number = document.createElement("span");
      number.className = "number";
      number.textContent = fn.first + n;
      const code = document.createElement("code");
      code.append(...pieces.map(([kind, text]) => {
        const piece = document.createElement("span");
        piece.className = kind;
        piece.textContent = text;
        return piece;
      }));
      line.append(number, code);
      block.append(line);
      const assignments = byLine.get(`${fn.file}:${fn.first + n}`) ?? [];
      if (assignments.length) {
        const chips = document.createElement("div");
        chips.className = "chips";
        chips.append(...assignments.map(chip));
        block.append(chips);
        assignments.forEach((assignment) => shown.add(assignment));
      }
    });
    return block;
  });
  const rest = launch.assignments.map((_, n) => n).filter((n) => !shown.has(n));
  if (rest.length) {
    const block = document.createElement("section");
    block.className = "function";
    block.append(...rest.map(chip));
    blocks.push(block);
  }
  $("source").replaceChildren(...blocks);
  return held;
}
const special = { nan: "#d50000", inf: "#ff9100", masked: "transparent" };
let pointedAt = null;
function drawValue(assignment, value) {
  const [cells, bins] = [$("value-cells"), $("value-bins")];
  $("value-legend").hidden = true;
  for (const id of ["value-readout", "bins-readout"]) $(id).textContent = "";
  cells.hidden = bins.hidden = true;
  pointedAt = null;
  if (!assignment) {
    $("value-title").textContent = "Choose a value in the source.";
    return;
  }
  $("value-title").textContent = `${assignment.name} ${assignment.type} ${value ? value.text : "is not assigned here"}`;
  if (!value?.cells) return;
  const size = Math.max(2, Math.min(18, Math.floor(330 / value.columns)));
  const height = Math.max(2, Math.min(18, Math.floor(330 / value.rows)));
  const context = prepare(cells, value.columns * size, value.rows * height);
  const span = (value.high ?? 0) - (value.low ?? 0);
  value.cells.forEach((cell, n) => {
    const [x, y] = [(n % value.columns) * size, Math.floor(n / value.columns) * height];
    context.fillStyle = special[cell] ?? scaleColour(span > 0 ? (cell - value.low) / span : 0.5);
    context.fillRect(x, y, size, height);
    if (cell === "masked") hatch(context, x, y, size, height);
  });
  pointedAt = { value, size, height };
  $("value-legend").hidden = false;
  $("value-scale").hidden = span <= 0;
  $("value-low").textContent = value.low;
  $("value-high").textContent = value.high;
  for (const kind of Object.keys(special)) $(`legend-${kind}`).hidden = !value.cells.includes(kind);
  if (value.bins) drawBins(bins, value);
}
function hatch(context, x, y, width, height) {
  context.strokeStyle = "#8888";
  context.beginPath();
  context.moveTo(x, y + height);
  context.lineTo(x + width, y);
  context.stroke();
}
function drawBins(canvas, value) {
  const [width, height] = [320, 90];
  const context = prepare(canvas, width, height);
  const most = Math.max(...value.bins);
  const step = width / value.bins.length;
  context.fillStyle = tone("accent");
  value.bins.forEach((number, n) => {
    const tall = number ? Math.max(1, (number / most) * (height - 2)) : 0;
    context.fillRect(n * step, height - tall, Math.max(1, step - 1), tall);
  });
  $("bins-readout").textContent = `${value.low} to ${value.high}: ${count(value.bins.reduce((a, b) => a + b))} finite elements`;
}
$("value-cells").addEventListener("mousemove", (event) => {
  if (!pointedAt) return;
  const { value, size, height } = pointedAt;
  const at = cellAt(event, value.rows, value.columns, size, height);
  if (!at) return;
  const n = at[0] * value.columns + at[1];
  const lanes = value.shape.reduce((a, b) => a * b, 1);
  const mean = lanes > value.cells.length ? "about " : "";
  $("value-readout").textContent = `${laneText(value, at, lanes)}: ${mean}${value.cells[n] === "masked" ? "masked off" : value.cells[n]}`;
});
function laneText(value, [row, column], lanes) {
  const shape = value.shape;
  const columns = shape.length > 1 ? shape[shape.length - 1] : 0;
  if (!columns) {
    const each = Math.max(1, Math.round(lanes / value.cells.length));
    const first = (row * value.columns + column) * each;
    return `lane ${range(first, Math.min(lanes, first + each) - 1)}`;
  }
  const rows = lanes / columns;
  const ends = (n, cells, extent) =>
    range(Math.ceil(n * extent / cells), Math.ceil((n + 1) * extent / cells) - 1);
  return `row ${ends(row, value.rows, rows)}, column ${ends(column, value.columns, columns)}`;
}
$("value-bins").addEventListener("mousemove", (event) => {
  const value = pointedAt?.value;
  if (!value?.bins) return;
  const at = cellAt(event, 1, value.bins.length, 320 / value.bins.length, 90);
  if (!at) return;
  const from = value.low + at[1] * value.bin_width;
  const ends = value.whole ? range(from, Math.min(value.high, from + value.bin_width - 1)) :
    `${from.toPrecision(4)} to ${(from + value.bin_width).toPrecision(4)}`;
  $("bins-readout").textContent = `${ends}: ${count(value.bins[at[1]])} elements`;
});
