// Keys: within the lists, and from anywhere to the box.

import { byId } from "./dom.js";
import { lift, movingKey } from "./dragging.js";
import { isOpen, rowsOf, showList, toggle } from "./results.js";
import { closeMessage, sayOf, undoLast } from "./teaching.js";

const SAYINGS = { b: "better", w: "worse", n: "away" };

const focusRow = (row) => {
  row?.querySelector(".title").focus();
  return true;
};

function acrossKey(row, system, key) {
  const target = key === "ArrowLeft" ? "baseline" : "learned";
  const others = rowsOf(target);
  if (target === system || !others.length) return true;
  showList(target);
  const place = rowsOf(system).indexOf(row);
  return focusRow(
    others.find((other) => other.dataset.id === row.dataset.id) ?? others[Math.min(place, others.length - 1)],
  );
}

// Returns true when the key was used.
function listKey(event, row) {
  if (event.target.matches(".text") && /^(Arrow|Home|End)/.test(event.key)) return false; // they scroll it
  const system = row.parentNode.id;
  const rows = rowsOf(system);
  const place = rows.indexOf(row);
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (key === "ArrowDown") return focusRow(rows[Math.min(place + 1, rows.length - 1)]);
  if (key === "ArrowUp") {
    if (place === 0) byId("q").focus();
    else focusRow(rows[place - 1]);
    return true;
  }
  if (key === "Home" || key === "End") return focusRow(rows.at(key === "Home" ? 0 : -1));
  if (key === "ArrowLeft" || key === "ArrowRight") return acrossKey(row, system, key);
  if (key === "u") {
    undoLast();
    return true;
  }
  if (key === "Escape" && isOpen(row)) {
    toggle(row, system);
    return focusRow(row);
  }
  if (system !== "learned") return false;
  if (key === "m") {
    lift(row);
    return true;
  }
  if (!(key in SAYINGS)) return false;
  if (!row.querySelector(`.${SAYINGS[key]}`).hidden) sayOf(row, SAYINGS[key]);
  return true;
}

function onKey(event, openHelp) {
  // Keys that make up a character belong to the input method; what a browser fills in comes without a key.
  if (event.isComposing || !event.key || event.ctrlKey || event.metaKey || event.altKey) return false;
  if (document.querySelector("dialog[open]")) return false;
  if (movingKey(event)) return true;
  const box = byId("q");
  const typing = event.target.matches?.("input, textarea, select, [contenteditable]");
  if (event.key === "/" && !typing) {
    box.focus();
    box.select();
    return true;
  }
  if (event.key === "?" && !typing) {
    openHelp();
    return true;
  }
  // From the box, and from nowhere: that is where a link with a query leaves its reader.
  if (event.key === "ArrowDown" && (event.target === box || event.target === document.body)) {
    const [first] = byId("lists").hidden ? [] : rowsOf(byId("lists").dataset.shown);
    return first ? focusRow(first) : false;
  }
  const row = event.target.closest?.("#lists li");
  if (row && listKey(event, row)) return true;
  const isOutside = event.target === document.body || event.target.closest?.("#toast");
  if (event.key.toLowerCase() === "u" && isOutside) {
    undoLast();
    return true;
  }
  if (event.key !== "Escape" || typing) return false;
  if (!byId("toast").hidden) closeMessage();
  else box.focus();
  return true;
}

export function prepareKeys(openHelp) {
  addEventListener("keydown", (event) => {
    if (onKey(event, openHelp)) event.preventDefault();
  });
}
