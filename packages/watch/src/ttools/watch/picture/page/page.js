// The page is drawn from one state, which contains the user's choices, and redrawn when it changes.
const state = { launch: 0, program: 0, iteration: 0, assignment: null, tensor: 0, kind: "load", slice: 0, colouring: "program" };
let data = null;
let layout = null;
const launchNow = () => data.launches[state.launch];
const followedNow = () => {
  const launch = launchNow();
  const own = launch.maps.flatMap((map) => Object.keys(map.own));
  return [...new Set([...Object.keys(launch.values), ...own].map(Number))].sort((a, b) => a - b);
};
const coordinates = ([x, y], n) => `(${n % x}, ${Math.floor(n / x) % y}, ${Math.floor(n / (x * y))})`;
function enterLaunch() {
  const launch = launchNow();
  Object.assign(state, { program: 0, iteration: 0, assignment: null, tensor: 0, slice: 0 });
  const first = followedNow()[0] ?? 0;
  const tiles = (launch.values[first] ?? []).filter((value) => value.cells);
  state.assignment = (tiles.find((value) => value.low !== value.high) ?? tiles[0])?.assignment ?? null;
  $("notes").replaceChildren(...launch.notes.map((text) => {
    const item = document.createElement("li");
    item.textContent = text;
    return item;
  }));
  $("arguments").replaceChildren(...launch.arguments.map(({ name, text }) => {
    const row = document.createElement("tr");
    for (const cell of [name, text]) row.insertCell().textContent = cell;
    return row;
  }));
  options($("tensor"), launch.maps.map((map, n) => [n, map.name]));
  $("maps").hidden = !launch.maps.length;
  enterTensor();
}
function enterTensor() {
  const map = launchNow().maps[state.tensor];
  if (!map) return redraw();
  const kinds = Object.keys(map.kinds);
  options($("kind"), (kinds.length ? kinds : ["load"]).map((kind) => [kind, kind]));
  if (!kinds.includes(state.kind)) state.kind = kinds[0] ?? "load";
  $("kind").value = state.kind;
  state.slice = 0;
  $("slice").max = map.slices.length - 1;
  $("slice-label").hidden = map.slices.length < 2;
  redraw();
}
// Converts the number of a slice to its leading indices.
function sliceText(map) {
  let number = map.slices[state.slice];
  const index = [];
  for (const extent of map.shape.slice(0, -2).reverse()) {
    index.unshift(number % extent);
    number = Math.floor(number / extent);
  }
  return `[${index.join(", ")}, :, :]`;
}
function redraw() {
  const launch = launchNow();
  const followed = followedNow();
  state.program = Math.min(state.program, Math.max(0, followed.length - 1));
  const program = followed[state.program] ?? 0;
  const iterations = iterationsOf(launch.values[program] ?? []);
  state.iteration = Math.min(state.iteration, Math.max(0, iterations.length - 1));
  $("program").max = Math.max(0, followed.length - 1);
  $("program").value = state.program;
  $("program").disabled = followed.length < 2;
  $("program-text").textContent = coordinates(launch.grid, program);
  $("iteration").max = Math.max(0, iterations.length - 1);
  $("iteration").value = state.iteration;
  $("iteration-label").hidden = iterations.length < 2;
  $("iteration-text").textContent = (iterations[state.iteration] ?? []).join(", ");
  const choose = (assignment) => { state.assignment = assignment; redraw(); };
  const held = drawSource(launch, program, iterations[state.iteration] ?? [], choose, state.assignment);
  drawValue(launch.assignments[state.assignment], held.get(state.assignment));
  layout = drawGrid(launch, followed, program);
  const map = launch.maps[state.tensor];
  if (map) {
    for (const id of ["tensor", "slice"]) $(id).value = state[id];
    $("slice-text").textContent = map.slices.length > 1 ? sliceText(map) : "";
    drawMap(map, state.kind, state.slice, state.colouring, program);
  }
}
for (const id of ["program", "iteration", "slice"]) {
  $(id).addEventListener("input", () => { state[id] = Number($(id).value); redraw(); });
}
$("launch").addEventListener("change", () => { state.launch = Number($("launch").value); enterLaunch(); });
$("tensor").addEventListener("change", () => { state.tensor = Number($("tensor").value); enterTensor(); });
for (const id of ["kind", "colouring"]) {
  $(id).addEventListener("change", () => { state[id] = $(id).value; redraw(); });
}
$("map").addEventListener("mousemove", (event) => {
  const map = launchNow().maps[state.tensor];
  const at = cellAt(event, map.row_cells, map.column_cells, ...sizeOf(map));
  if (at) $("map-readout").textContent = describeCell(map, state.kind, state.slice, at);
});
function gridCell(event) {
  const at = cellAt(event, layout.down, layout.across, layout.size, layout.size);
  const ends = at && programsOf(layout, ...at);
  return ends && ends[0] < layout.total ? ends : null;
}
$("grid").addEventListener("mousemove", (event) => {
  const ends = gridCell(event);
  if (!ends) return;
  const grid = launchNow().grid;
  const single = layout.across === layout.columns && layout.down === layout.rows;
  const recorded = followedNow().filter((n) => String(cellOfProgram(layout, n)) === String(cellOfProgram(layout, ends[0])));
  $("grid-readout").textContent = (single ? `program ${coordinates(grid, ends[0])}` : `programs near ${coordinates(grid, ends[0])}`) +
    (recorded.length ? "" : ": values not recorded");
});
$("grid").addEventListener("click", (event) => {
  const ends = gridCell(event);
  if (!ends) return;
  const target = String(cellOfProgram(layout, ends[0]));
  const found = followedNow().findIndex((n) => String(cellOfProgram(layout, n)) === target);
  if (found >= 0) { state.program = found; redraw(); }
});
async function begin() {
  const packed = atob($("data").textContent.trim());
  const bytes = Uint8Array.from(packed, (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  data = JSON.parse(await new Response(stream).text());
  options($("launch"), data.launches.map((launch, n) => [n, `${launch.index}: ${launch.kernel}, grid (${launch.grid.join(", ")})`]));
  $("launch-label").hidden = data.launches.length < 2;
  const left = Object.entries(data.left_out).map(([kernel, number]) => `${count(number)} of ${kernel}`);
  $("state").textContent = left.length ? `Further launches are not drawn: ${left.join(", ")}.` : "";
  document.querySelector("main").hidden = false;
  enterLaunch();
  document.body.dataset.ready = "yes";
}
begin().catch((error) => { $("state").textContent = `This page cannot be shown: ${error}`; });
