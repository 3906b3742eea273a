// The roofline: operations per byte against operations per second, both logarithmic.
function drawRoofline(section, roofline) {
  const hint = section.querySelector(".hint");
  const svg = section.querySelector("svg");
  if (!roofline || !roofline.points.length) {
    hint.textContent = roofline
      ? "No kernel has both operations and bytes."
      : "Name a GPU with --gpu to see its roofline.";
    svg.remove();
    return;
  }
  const kinds = new Set(roofline.points.map((point) => point.kind));
  const meanings = {
    measured: `Measured on ${roofline.device}.`,
    projected: `Projected for ${roofline.device}; a vertical line is the interval of the projection.`,
    bound: `A hollow circle lies on the roof: only the lower bound for ${roofline.device} is known.`,
  };
  hint.textContent = Object.keys(meanings).filter((kind) => kinds.has(kind)).map((kind) => meanings[kind]).join(" ");
  const [left, right, top, bottom] = [70, 880, 15, 375];
  const roofs = Object.entries(roofline.roofs);
  const peaks = roofs.map(([, peak]) => peak);
  const ridges = peaks.map((peak) => peak / roofline.bandwidth);
  const xs = [...roofline.points.map((point) => point.x), ...ridges];
  const ys = [...roofline.points.flatMap((point) => [point.y, point.low, point.high]), ...peaks];
  const span = (values) =>
    [Math.floor(Math.log10(Math.min(...values)) - 0.3), Math.ceil(Math.log10(Math.max(...values)) + 0.1)];
  const [x0, x1] = span(xs);
  const [y0, y1] = span(ys);
  const x = (value) => left + ((Math.log10(value) - x0) / (x1 - x0)) * (right - left);
  const y = (value) => bottom - ((Math.log10(value) - y0) / (y1 - y0)) * (bottom - top);
  for (let n = x0; n <= x1; n += 1) {
    draw(svg, "line", { class: "grid", x1: x(10 ** n), x2: x(10 ** n), y1: top, y2: bottom });
    const anchor = n === x1 ? "end" : "middle";
    draw(svg, "text", { x: x(10 ** n), y: bottom + 18, "text-anchor": anchor }, String(10 ** n > 1e3 ? `1e${n}` : Number((10 ** n).toPrecision(1))));
  }
  for (let n = y0; n <= y1; n += 1) {
    draw(svg, "line", { class: "grid", x1: left, x2: right, y1: y(10 ** n), y2: y(10 ** n) });
    draw(svg, "text", { x: left - 8, y: y(10 ** n) + 4, "text-anchor": "end" }, amount(10 ** n, "flop/s").replace("flop/s", ""));
  }
  draw(svg, "text", { x: (left + right) / 2, y: bottom + 38, "text-anchor": "middle" }, "operations per byte of memory traffic");
  draw(svg, "text", { x: 16, y: (top + bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 16 ${(top + bottom) / 2})` }, "operations per second");
  const start = Math.max(10 ** x0, 10 ** y0 / roofline.bandwidth);
  roofs.sort((a, b) => a[1] - b[1]);
  const highest = peaks.length ? Math.max(...peaks) : 0;
  for (const [unit, peak] of roofs) {
    const ridge = peak / roofline.bandwidth;
    const from = peak === highest ? `${x(start)},${y(start * roofline.bandwidth)} ` : "";
    draw(svg, "polyline", { class: "roof", points: `${from}${x(ridge)},${y(peak)} ${right},${y(peak)}` });
    draw(svg, "text", { x: right - 6, y: y(peak) - 6, "text-anchor": "end" }, `${unit}: ${amount(peak, "flop/s")}`);
  }
  const middle = Math.sqrt(start * (highest / roofline.bandwidth));
  const slope = (Math.atan2(y(10) - y(1), x(10) - x(1)) * 180) / Math.PI;
  const at = [x(middle), y(middle * roofline.bandwidth) - 8];
  draw(svg, "text", { x: at[0], y: at[1], "text-anchor": "middle", transform: `rotate(${slope} ${at[0]} ${at[1]})` }, `${amount(roofline.bandwidth, "B/s")}`);
  // Labels stay inside the axes, and keep clear of each other, of points and of the roofs.
  const taken = [...svg.querySelectorAll("text")].map(box);
  const steps = 60;
  for (const [, peak] of roofs) {
    for (let n = 0; n <= steps; n += 1) {
      const at = left + ((right - left) * n) / steps;
      const value = 10 ** (x0 + ((at - left) / (right - left)) * (x1 - x0));
      const height = y(Math.min(peak, value * roofline.bandwidth));
      taken.push([at - 6, height - 3, at + 6, height + 3]);
    }
  }
  for (const point of roofline.points) taken.push([x(point.x) - 8, y(point.high), x(point.x) + 8, y(point.low)]);
  for (const point of roofline.points) {
    const [px, py] = [x(point.x), y(point.y)];
    const [low, high] = [point.low, point.high].map((value) => amount(value, "flop/s"));
    const interval = point.kind === "projected" ? ` (${low} to ${high})` : "";
    if (interval) draw(svg, "line", { class: "interval", x1: px, x2: px, y1: y(point.low), y2: y(point.high) });
    const dot = draw(svg, "circle", { class: `point ${point.kind}`, cx: px, cy: py, r: 6 });
    draw(dot, "title", {}, `${point.name}: ${point.x.toPrecision(3)} flop per byte, ${amount(point.y, "flop/s")}${interval}`);
    const label = draw(svg, "text", { class: "label", x: px, y: py }, shortened(point.name, 40));
    const width = label.getComputedTextLength();
    const places = [];
    for (const up of [4, 22, -14, 40, -32, 58, -50, 76, -68]) {
      places.push([px + 12, py + up], [px - 12 - width, py + up]);
    }
    const clamped = ([at, height]) => [Math.min(Math.max(at, left + 4), right - 4 - width), Math.min(Math.max(height, top + 14), bottom - 6)];
    const area = ([at, height]) => [at, height - 13, at + width, height + 4];
    const free = (place) => !taken.some((other) => overlap(area(place), other));
    const [at, height] = places.map(clamped).find(free) ?? clamped(places[0]);
    label.setAttribute("x", at);
    label.setAttribute("y", height);
    taken.push(area([at, height]));
  }
}
function box(element) {
  const { x, y, width, height } = element.getBBox();
  return element.hasAttribute("transform") ? [0, 0, 0, 0] : [x, y, x + width, y + height];
}
const overlap = ([a, b, c, d], [e, f, g, h]) => a < g && e < c && b < h && f < d;
function shortened(text, length) {
  if (text.length <= length) return text;
  const end = Math.floor((length - 1) / 2);
  return `${text.slice(0, length - 1 - end)}…${text.slice(-end)}`;
}
drawRoofline(document.getElementById("roofline"), data.roofline);
