"use strict";
// Selecting a tab shows its panel. Pointing at a line highlights the corresponding lines on both
// sides, and a click scrolls the other side to them.
for (const kernel of document.querySelectorAll("section.kernel")) {
  const source = kernel.querySelector(".side.source");
  const shown = () => kernel.querySelector(".side.stage:not([hidden])");
  function select(list, chosen) {
    for (const tab of list.querySelectorAll("[role=tab]")) {
      tab.setAttribute("aria-selected", tab === chosen);
      document.getElementById(tab.getAttribute("aria-controls")).hidden = tab !== chosen;
    }
    if (list.dataset.group === "stages") share();
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
  for (const list of kernel.querySelectorAll("[role=tablist]")) {
    const tabs = [...list.querySelectorAll("[role=tab]")];
    for (const tab of tabs) tab.addEventListener("click", () => select(list, tab));
    if (tabs.length) select(list, tabs.find((tab) => tab.dataset.first) ?? tabs[0]);
  }
}
