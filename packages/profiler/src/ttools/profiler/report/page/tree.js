// The flame graph: scopes around kernels, as wide as their times. A click zooms in on a scope.
function drawTree(section, root) {
  const svg = section.querySelector("svg");
  const output = section.querySelector("output");
  const [width, height] = [1200, 24];
  const depth = (node) => 1 + Math.max(0, ...node.children.map(depth));
  function about(node) {
    const facts = [time(node.seconds), `${node.launches} launches`];
    if (node.flops) facts.push(`${amount(node.flops, "flop")}`);
    if (node.bytes) facts.push(`${amount(node.bytes, "B")}`);
    for (const [name, value] of Object.entries(node.metrics)) facts.push(`${name}=${value}`);
    return `${node.name}: ${facts.join(", ")}`;
  }
  // Writes a name, shortened to what fits; its width depends on the letters.
  function label(group, name, x, y, room) {
    const text = draw(group, "text", { x, y }, name);
    for (let letters = name.length - 1; text.getComputedTextLength() > room; letters -= 1) {
      if (letters < 3) return text.remove();
      text.textContent = `${name.slice(0, letters - 1)}…`;
    }
  }
  function place(node, left, room, level) {
    if (room < 0.5) return;
    const group = draw(svg, "g", { "data-name": node.name });
    draw(group, "rect", { x: left, y: level * height, width: room, height: height - 1, fill: colour(node.name, node.kind), rx: 2 });
    draw(group, "title", {}, about(node));
    if (room > 30) label(group, node.name, left + 5, level * height + 16, room - 10);
    group.addEventListener("mouseenter", () => { output.textContent = about(node); });
    group.addEventListener("click", () => show(node));
    let at = left;
    for (const child of node.children) {
      const own = node.seconds ? (room * child.seconds) / node.seconds : 0;
      place(child, at, own, level + 1);
      at += own;
    }
  }
  function show(node) {
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${depth(node) * height}`);
    svg.dataset.root = node.name;
    place(node, 0, width, 0);
  }
  section.querySelector("#reset").addEventListener("click", () => show(root));
  show(root);
}
drawTree(document.getElementById("tree"), data.tree);
