"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
function draw(parent, tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}
function colour(name, kind) {
  let hash = 7;
  for (const letter of name) hash = (hash * 31 + letter.codePointAt(0)) % 9973;
  if (kind === "scope") return `hsl(${200 + (hash % 40)} 25% 78%)`;
  return `hsl(${(hash * 137.508) % 360} 62% 70%)`;
}
function prefixed(value, unit, steps) {
  for (const [step, prefix] of steps) {
    if (value >= step) return `${Number((value / step).toPrecision(3))} ${prefix}${unit}`;
  }
  return `0 ${unit}`;
}
const time = (seconds) => prefixed(seconds, "s", [[1, ""], [1e-3, "m"], [1e-6, "u"], [1e-9, "n"]]);
const amount = (value, unit) =>
  prefixed(value, unit, [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1e-300, ""]]);

// The table: a click on a heading sorts the rows, a click on a kernel shows its source.
const body = document.querySelector("#kernels tbody");
const headings = [...document.querySelectorAll("#kernels th")];
headings.forEach((heading, column) => heading.addEventListener("click", () => {
  const numeric = heading.dataset.sort === "number";
  const before = heading.getAttribute("aria-sort");
  const down = before ? before === "ascending" : numeric;
  for (const each of headings) each.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down ? "descending" : "ascending");
  const key = (row) => {
    const cell = row.cells[column];
    if (!numeric) return cell.textContent;
    return cell.dataset.value === "" ? -Infinity : Number(cell.dataset.value);
  };
  const order = (a, b) => (numeric ? key(a) - key(b) : key(a).localeCompare(key(b)));
  body.append(...[...body.rows].sort((a, b) => (down ? order(b, a) : order(a, b))));
}));
const further = document.getElementById("further");
const fewer = "show fewer columns", more = further?.textContent;
further?.addEventListener("click", () => {
  const isShort = body.parentElement.classList.toggle("first");
  further.textContent = isShort ? more : fewer;
});
function choose(kernel) {
  for (const source of document.querySelectorAll(".source")) {
    source.hidden = source.dataset.kernel !== kernel;
  }
  for (const row of body.rows) row.classList.toggle("chosen", row.dataset.kernel === kernel);
}
body.addEventListener("click", (event) => {
  const row = event.target.closest("tr");
  if (row) choose(row.dataset.kernel);
});
document.querySelector("#hottest")?.addEventListener("click", (event) => {
  const kernel = event.target.dataset.kernel;
  if (kernel === undefined) return;
  choose(kernel);
  document.getElementById("sources").scrollIntoView();
});
if (body.rows.length) choose(body.rows[0].dataset.kernel);
