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
  hint.textContent = roofline.measured
    ? `Measured on ${roofline.device}.`
    : `Kernels did not run on ${roofline.device}: each stands where its bound is.`;
  const [left, right, top, bottom] = [70, 880, 15, 375];
  const roofs = Object.entries(roofline.roofs);
  const peaks = roofs.map(([, peak]) => peak);
  const ridges = peaks.map((peak) => peak / roofline.bandwidth);
  const xs = [...roofline.points.map((point) => point.x), ...ridges];
  const ys = [...roofline.points.map((point) => point.y), ...peaks];
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
  // Labels keep clear of each other and of those of roofs: left, right and height of each.
  const labels = roofs.map(([, peak]) => [right - 170, right, y(peak) - 6]);
  for (const point of roofline.points) {
    const [px, py] = [x(point.x), y(point.y)];
    const dot = draw(svg, "circle", { class: roofline.measured ? "point" : "point bound", cx: px, cy: py, r: 6 });
    draw(dot, "title", {}, `${point.name}: ${point.x.toPrecision(3)} flop per byte, ${amount(point.y, "flop/s")}`);
    const room = 10 + 7 * point.name.length;
    const end = px + room > right;
    const [from, to] = end ? [px - room, px] : [px, px + room];
    let ly = py + 22;
    const covered = ([a, b, height]) => a < to && from < b && Math.abs(height - ly) < 15;
    while (labels.some(covered) && ly < bottom - 4) ly += 5;
    labels.push([from, to, ly]);
    draw(svg, "text", { x: end ? px - 10 : px + 10, y: ly, "text-anchor": end ? "end" : "start" }, point.name);
  }
}
drawRoofline(document.getElementById("roofline"), data.roofline);
