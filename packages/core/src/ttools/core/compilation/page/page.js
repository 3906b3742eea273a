"use strict";
// A tab shows its stage; pointing at a line lights what belongs together on both sides, a click
// scrolls the other side to it.
for (const kernel of document.querySelectorAll("section.kernel")) {
  const tabs = [...kernel.querySelectorAll("[role=tab]")];
  const panels = [...kernel.querySelectorAll("[role=tabpanel]")];
  const source = kernel.querySelector(".side.source");
  const shown = () => panels.find((panel) => !panel.hidden);
  function select(tab) {
    for (const each of tabs) each.setAttribute("aria-selected", each === tab);
    for (const panel of panels) panel.hidden = panel.id !== tab.getAttribute("aria-controls");
    share();
  }
  function share() {
    const counts = new Map();
    for (const line of shown().querySelectorAll(".line[data-at]")) {
      counts.set(line.dataset.at, (counts.get(line.dataset.at) ?? 0) + 1);
    }
    for (const line of source.querySelectorAll(".line")) {
      line.querySelector(".share").textContent = counts.get(line.dataset.at) ?? "";
    }
  }
  function light(at) {
    for (const line of kernel.querySelectorAll(".line.lit")) line.classList.remove("lit");
    if (!at) return;
    for (const side of [source, shown()]) {
      for (const line of side.querySelectorAll(`.line[data-at="${CSS.escape(at)}"]`)) {
        line.classList.add("lit");
      }
    }
  }
  for (const tab of tabs) tab.addEventListener("click", () => select(tab));
  kernel.addEventListener("mouseover", (event) => {
    const line = event.target.closest(".line[data-at]");
    if (line) light(line.dataset.at);
  });
  kernel.addEventListener("click", (event) => {
    const line = event.target.closest(".line[data-at]");
    if (!line) return;
    light(line.dataset.at);
    const other = source.contains(line) ? shown() : source;
    other.querySelector(".line.lit")?.scrollIntoView({ block: "center" });
  });
  if (tabs.length) select(tabs.find((tab) => tab.dataset.first) ?? tabs[0]);
}
