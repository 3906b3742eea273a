"use strict";
// Filters: a finding is shown if its value is selected in every group.
const form = document.getElementById("filters");
const articles = [...document.querySelectorAll("article.finding")];
function applyFilters() {
  const ticked = {};
  for (const box of form.querySelectorAll("input")) {
    ticked[box.name] ??= new Set();
    if (box.checked) ticked[box.name].add(box.value);
  }
  let shown = 0;
  for (const article of articles) {
    const visible = Object.keys(ticked).every((name) => ticked[name].has(article.dataset[name]));
    article.hidden = !visible;
    document.querySelector(`[data-for="${article.id}"]`).hidden = !visible;
    shown += visible;
  }
  for (const cause of document.querySelectorAll("section.cause")) {
    cause.hidden = ![...cause.querySelectorAll("article")].some((article) => !article.hidden);
  }
  document.getElementById("shown").textContent =
    `${shown} of ${articles.length} findings shown`;
}
form?.addEventListener("change", applyFilters);
form?.addEventListener("submit", (event) => event.preventDefault());

// Memory maps.
const [UNTOUCHED, SHARED, COLLISION] = [-1, -2, -3];
const mapData = document.getElementById("map-data");
const maps = mapData ? JSON.parse(mapData.textContent) : [];
const style = getComputedStyle(document.documentElement);
function colour(program) {
  if (program === COLLISION) return style.getPropertyValue("--collision");
  if (program === SHARED) return style.getPropertyValue("--shared");
  // Multiples of the golden angle give neighbours different hues. All hues differ from the red of
  // collisions.
  return `hsl(${40 + ((program * 137.508) % 280)} 55% 60%)`;
}
function describe(map, cell) {
  const first = cell * map.per_cell;
  const last = Math.min(first + map.per_cell, map.elements) - 1;
  const where = first === last ? `element ${first}` : `elements ${first} to ${last}`;
  const program = map.cells.flat()[cell];
  const sharers = (map.sharers[cell] ?? []).join(", ");
  if (program === UNTOUCHED) return `${where}: untouched`;
  if (program === SHARED) return `${where}: programs ${sharers}`;
  if (program === COLLISION) return `${where}: programs ${sharers} collide`;
  return `${where}: program ${program}`;
}
function drawMap(canvas) {
  const map = maps[Number(canvas.dataset.map)];
  const columns = Math.max(1, map.cells[0]?.length ?? 0);
  const size = Math.max(2, Math.min(16, Math.floor(1024 / columns)));
  canvas.width = columns * size;
  canvas.height = Math.max(1, map.cells.length) * Math.max(size, 8);
  const height = Math.max(size, 8);
  const context = canvas.getContext("2d");
  let drawn = 0;
  map.cells.forEach((row, y) => row.forEach((program, x) => {
    if (program === UNTOUCHED) return;
    context.fillStyle = colour(program);
    context.fillRect(x * size, y * height, size, height);
    drawn += 1;
  }));
  canvas.dataset.drawn = drawn;
  const readout = canvas.parentElement.querySelector(".readout");
  canvas.addEventListener("mousemove", (event) => {
    const box = canvas.getBoundingClientRect();
    const x = Math.floor((event.clientX - box.left) / size);
    const y = Math.floor((event.clientY - box.top) / height);
    if (map.cells[y]?.[x] !== undefined) {
      readout.textContent = describe(map, y * columns + x);
    }
  });
}
document.querySelectorAll("canvas.map").forEach(drawMap);
