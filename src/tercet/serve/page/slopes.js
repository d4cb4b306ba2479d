// Curves from a document's place in one list to its place in the other.

import { byId, drawn } from "./dom.js";

const anchor = (row, box) => {
  const head = row.querySelector("h3").getBoundingClientRect();
  return head.top + Math.min(head.height, 24) / 2 - box.top;
};

export function drawSlopes() {
  const svg = byId("slopes");
  const box = svg.getBoundingClientRect();
  if (!box.width) return; // one list at a time on narrow screens
  const left = new Map([...byId("baseline").children].map((row) => [row.dataset.id, row]));
  const curves = [];
  const below = (system) => byId(system).getBoundingClientRect().bottom - box.top + 24;
  const curve = (y1, y2, kind) => {
    const bend = box.width * 0.5;
    curves.push(
      drawn("path", { d: `M4 ${y1} C${bend} ${y1} ${box.width - bend} ${y2} ${box.width - 5} ${y2}`, class: kind }),
    );
  };
  for (const row of byId("learned").children) {
    if (row.classList.contains("leaving")) continue;
    const from = left.get(row.dataset.id);
    const y2 = anchor(row, box);
    const lit = row.classList.contains("lit") ? " lit" : "";
    left.delete(row.dataset.id);
    // From farther down than the list shows: a curve from below it. From nowhere: a point only.
    if (from !== undefined) curve(anchor(from, box), y2, row.dataset.way + lit);
    else if (row.dataset.way === "up") curve(below("baseline"), y2, `far up${lit}`);
    curves.push(drawn("circle", { cx: box.width - 5, cy: y2, r: 3, class: row.dataset.way + lit }));
  }
  for (const row of left.values()) {
    if (row.classList.contains("leaving") || row.dataset.way !== "down") continue;
    curve(anchor(row, box), below("learned"), `far down${row.classList.contains("lit") ? " lit" : ""}`);
  }
  svg.replaceChildren(...curves);
}

export function drawSlopesFor(milliseconds) {
  const until = performance.now() + milliseconds;
  const step = () => {
    drawSlopes();
    if (performance.now() < until) requestAnimationFrame(step);
  };
  step();
}

export function keepSlopes() {
  const watcher = new ResizeObserver(drawSlopes);
  watcher.observe(byId("baseline"));
  watcher.observe(byId("learned"));
  watcher.observe(document.body);
}
