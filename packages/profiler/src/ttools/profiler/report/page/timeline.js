// The timeline: a track per thread or stream. The wheel zooms at the pointer, dragging moves.
function drawTimeline(section, events) {
  const canvas = section.querySelector("canvas");
  const output = section.querySelector("output");
  const lanes = [...new Set(events.map((event) => event.lane))];
  const [row, margin, axis] = [30, 130, 24];
  const end = Math.max(1e-9, ...events.map((event) => event.begin + event.seconds));
  const start = events.length ? Math.min(...events.map((event) => event.begin)) : 0;
  const view = { from: start, to: end };
  const style = getComputedStyle(document.body);
  let [scale, size] = [1, 0];
  function paint() {
    size = canvas.clientWidth || 1000;
    scale = window.devicePixelRatio || 1;
    const height = Math.max(1, lanes.length) * row + axis;
    canvas.width = size * scale;
    canvas.height = height * scale;
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.scale(scale, scale);
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    const room = size - margin;
    const x = (seconds) => margin + ((seconds - view.from) / (view.to - view.from)) * room;
    let drawn = 0;
    for (const event of events) {
      const [left, right] = [x(event.begin), x(event.begin + event.seconds)];
      if (right < margin || left > size) continue;
      const from = Math.max(left, margin);
      const width = Math.max(1, Math.min(right, size) - from);
      const top = lanes.indexOf(event.lane) * row + 3;
      context.fillStyle = colour(event.name, "kernel");
      context.fillRect(from, top, width, row - 6);
      drawn += 1;
      if (width > 40) {
        context.fillStyle = "#111";
        context.fillText(fitting(context, event.name, width - 8), from + 4, top + (row - 6) / 2);
      }
    }
    context.fillStyle = style.color;
    lanes.forEach((lane, n) => {
      context.fillText(fitting(context, lane, margin - 12), 4, n * row + row / 2);
    });
    for (let n = 0; n <= 4; n += 1) {
      const at = view.from + ((view.to - view.from) * n) / 4;
      context.textAlign = n === 4 ? "right" : n ? "center" : "left";
      context.fillText(time(at - start), x(at), lanes.length * row + axis / 2);
    }
    context.textAlign = "left";
    canvas.dataset.drawn = drawn;
  }
  function fitting(context, text, width) {
    let shown = text;
    while (shown.length > 1 && context.measureText(shown).width > width) {
      shown = `${shown.slice(0, -2)}…`;
    }
    return shown;
  }
  const seconds = (event) => {
    const share = (event.offsetX - margin) / (size - margin);
    return view.from + share * (view.to - view.from);
  };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const at = seconds(event);
    const factor = event.deltaY < 0 ? 0.8 : 1.25;
    view.from = Math.max(start, at - (at - view.from) * factor);
    view.to = Math.min(end, Math.max(view.from + 1e-9, at + (view.to - at) * factor));
    paint();
  }, { passive: false });
  let held = null;
  canvas.addEventListener("pointerdown", (event) => { held = seconds(event); });
  addEventListener("pointerup", () => { held = null; });
  canvas.addEventListener("pointermove", (event) => {
    const at = seconds(event);
    if (held !== null) {
      const room = view.to - view.from;
      view.from = Math.min(Math.max(start, view.from + held - at), end - room);
      view.to = view.from + room;
      paint();
      return;
    }
    const lane = lanes[Math.floor(event.offsetY / row)];
    const found = events.find((each) => each.lane === lane && each.begin <= at && at <= each.begin + each.seconds);
    if (found) output.textContent = `${found.name}: ${time(found.seconds)} at ${time(found.begin - start)} ${found.about}`;
  });
  section.querySelector("#fit").addEventListener("click", () => {
    [view.from, view.to] = [start, end];
    paint();
  });
  addEventListener("resize", paint);
  paint();
}
drawTimeline(document.getElementById("timeline"), data.events);
