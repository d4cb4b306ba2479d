// Cards are put where they belong: dragged by their grip, or lifted and moved by arrow keys.

import { byId, calm, say } from "./dom.js";
import { nameOf } from "./names.js";
import { rowsOf } from "./results.js";
import { drawSlopes } from "./slopes.js";

const STARTS = 5; // pixels after which a press is a drag
const EDGE = 70; // pixels from the end of the window within which it scrolls
let drop = () => {};
let isBusy = () => false;
let drag = null; // by pointer
let lifted = null; // by keyboard: { row, order }

// -- by pointer -------------------------------------------------------------------------------------------------------

function begin(event) {
  const grip = event.target.closest(".grip");
  if (!grip || event.button !== 0 || drag || isBusy()) return;
  event.preventDefault(); // no text is selected
  putBack();
  const row = grip.closest("li");
  const rows = rowsOf("learned");
  const tops = rows.map((other) => other.offsetTop);
  const middles = rows.map((other) => other.offsetTop + other.offsetHeight / 2);
  drag = { row, rows, tops, middles, from: rows.indexOf(row), startY: event.pageY, clientY: event.clientY, moved: false };
  drag.to = drag.from;
  grip.focus({ preventScroll: true });
  grip.setPointerCapture(event.pointerId);
  grip.addEventListener("pointermove", follow);
  grip.addEventListener("pointerup", finish);
  grip.addEventListener("pointercancel", cancel);
  drag.end = () => {
    grip.removeEventListener("pointermove", follow);
    grip.removeEventListener("pointerup", finish);
    grip.removeEventListener("pointercancel", cancel);
  };
}

function follow(event) {
  drag.clientY = event.clientY;
  if (drag.moved) return; // the frames do the rest
  if (Math.abs(event.pageY - drag.startY) < STARTS) return;
  drag.moved = true;
  drag.row.classList.add("lifted");
  byId("learned").classList.add("moving");
  requestAnimationFrame(step);
}

function step() {
  if (!drag?.moved) return;
  const { row, rows, middles, from } = drag;
  const [above, below] = [EDGE - drag.clientY, drag.clientY - (innerHeight - EDGE)];
  if (above > 0) scrollBy(0, -Math.ceil(above / 6));
  else if (below > 0) scrollBy(0, Math.ceil(below / 6));
  const by = drag.clientY + scrollY - drag.startY;
  const center = middles[from] + by;
  const passed = (middle, place) => (place < from ? center < middle : place > from && center > middle);
  const n = middles.filter(passed).length;
  drag.to = by < 0 ? from - n : from + n;
  for (const [place, other] of rows.entries()) {
    const makesRoom = place !== from && (place - from) * (drag.to - place) >= 0;
    other.style.transform = makesRoom ? `translateY(${(place < from ? 1 : -1) * row.offsetHeight}px)` : "";
  }
  row.style.transform = `translateY(${by}px)`;
  drawSlopes();
  requestAnimationFrame(step);
}

function settle() {
  const ended = drag;
  drag = null;
  ended.end();
  for (const row of ended.rows) row.style.transform = "";
  ended.row.classList.remove("lifted");
  byId("learned").classList.remove("moving");
  return ended;
}

function finish() {
  const { row, rows, from, to, moved } = settle();
  if (!moved) say("Drag it to where it belongs, or press M and then the arrow keys.");
  if (moved && to !== from) {
    putAt(row, rows, to);
    drop(from, to);
  }
  drawSlopes();
}

function cancel() {
  if (drag === null) return;
  settle();
  drawSlopes();
}

// Before the answer is there, the list shows what was meant.
function putAt(row, rows, to) {
  const others = rows.filter((other) => other !== row);
  const focused = row.contains(document.activeElement) ? document.activeElement : null;
  byId("learned").insertBefore(row, others[to] ?? null);
  focused?.focus({ preventScroll: true });
}

// -- by keyboard ------------------------------------------------------------------------------------------------------

export function lift(row) {
  if (lifted?.row === row) {
    putDown();
    return;
  }
  if (isBusy()) return;
  putBack();
  const order = rowsOf("learned");
  lifted = { row, order };
  const grip = row.querySelector(".grip");
  row.classList.add("lifted");
  grip.setAttribute("aria-pressed", "true");
  grip.focus();
  const place = `${order.indexOf(row) + 1} of ${order.length}`;
  say(`${nameOf(row.result)}, rank ${place}. Arrow keys move it, Enter puts it there, Escape puts it back.`);
}

function shift(by) {
  const { row } = lifted;
  const rows = rowsOf("learned");
  const to = Math.max(0, Math.min(rows.length - 1, rows.indexOf(row) + by));
  lifted.shifting = true; // it loses the focus for a moment
  putAt(row, rows, to);
  lifted.shifting = false;
  row.scrollIntoView({ block: "nearest", behavior: calm() ? "auto" : "smooth" });
  const below = rowsOf("learned")[to + 1];
  say(`Rank ${to + 1} of ${rows.length}${below ? `, above ${nameOf(below.result)}` : ", the last"}.`);
  drawSlopes();
}

function letGo() {
  const ended = lifted;
  lifted = null;
  ended.row.classList.remove("lifted");
  ended.row.querySelector(".grip").removeAttribute("aria-pressed");
  return ended;
}

function putDown() {
  const { row, order } = letGo();
  const [from, to] = [order.indexOf(row), rowsOf("learned").indexOf(row)];
  if (from !== to) drop(from, to);
  else say("It stays where it was.");
}

function putBack() {
  if (lifted === null) return;
  const { row, order } = letGo();
  if (row.isConnected) putAt(row, rowsOf("learned"), order.indexOf(row));
  drawSlopes();
}

// Keys while a card is lifted or dragged. Returns true when the key was used.
export function movingKey(event) {
  if (event.key === "Escape" && drag) {
    cancel();
    return true;
  }
  if (lifted === null) return false;
  if (event.key === "Escape") {
    putBack();
    say("It is back where it was.");
    return true;
  }
  const by = { ArrowUp: -1, ArrowDown: 1, Home: -Infinity, End: Infinity, PageUp: -5, PageDown: 5 }[event.key];
  if (by === undefined) return false;
  shift(by);
  return true;
}

export function prepareDragging(onDrop, busy) {
  drop = onDrop;
  isBusy = busy;
  const list = byId("learned");
  list.addEventListener("pointerdown", begin);
  // By keyboard alone: a press of a pointer has another detail, and is a drag.
  list.addEventListener("click", (event) => {
    const grip = event.target.closest(".grip");
    if (grip && event.detail === 0) lift(grip.closest("li"));
  });
  list.addEventListener("focusout", (event) => {
    if (lifted && !lifted.shifting && !lifted.row.contains(event.relatedTarget)) putBack();
  });
}
