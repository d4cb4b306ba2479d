// The two lists. Cards are kept by document, so that a new version moves them instead of replacing them.

import { noteClick } from "./api.js";
import { fillCard, makeCard } from "./cards.js";
import { byId, calm, counted } from "./dom.js";
import { nameOf, rememberTitle, titleOf } from "./names.js";
import { fillReasons } from "./reasons.js";
import { drawSlopes, drawSlopesFor } from "./slopes.js";
import { isCompared, isMixed, state } from "./state.js";

const MOVE = { duration: 620, easing: "cubic-bezier(.25, .75, .2, 1)" };
const SYSTEMS = ["baseline", "learned"];

export const rowsOf = (system) => [...byId(system).children].filter((row) => !row.classList.contains("leaving"));
export const rowOf = (id) => rowsOf("learned").find((row) => row.dataset.id === id);
export const isOpen = (row) => row.querySelector(".title").getAttribute("aria-expanded") === "true";

function light(id) {
  for (const system of SYSTEMS)
    for (const row of byId(system).children) row.classList.toggle("lit", row.dataset.id === id);
  byId("lists").classList.toggle("lighting", id !== null);
  drawSlopes();
}

// One stop of the Tab key in each list: the card that was there last, and what can be done with it.
export function rove(row) {
  for (const other of rowsOf(row.parentNode.id))
    for (const control of other.querySelectorAll(".title, .teach button, .stored_fields a"))
      control.tabIndex = other === row ? 0 : -1;
}

function newRow(system) {
  const row = makeCard(system);
  row.querySelector(".title").addEventListener("click", () => toggle(row, system));
  row.addEventListener("focusin", () => rove(row));
  for (const event of ["pointerenter", "focusin"]) row.addEventListener(event, () => light(row.dataset.id));
  for (const event of ["pointerleave", "focusout"]) row.addEventListener(event, () => light(null));
  return row;
}

function openRow(row, system) {
  const rows = rowsOf(system);
  const place = rows.indexOf(row);
  return fillReasons(row.querySelector(".reasons"), {
    query: state.answer.query,
    system,
    result: row.result,
    versus: place > 0 ? rows[place - 1].dataset.id : null,
  });
}

export async function toggle(row, system) {
  const opening = !isOpen(row);
  row.classList.toggle("open", opening);
  row.querySelector(".title").setAttribute("aria-expanded", String(opening));
  const panel = row.querySelector(".reasons");
  if (!opening) {
    panel.hidden = true;
    return;
  }
  if (system === "learned") noteClick(state.answer.query_id, row.dataset.id);
  // The panel appears with its content, so that the list moves once; or as it is when that takes long.
  const slow = setTimeout(() => {
    panel.hidden = !isOpen(row);
  }, 300);
  await openRow(row, system);
  clearTimeout(slow);
  panel.hidden = !isOpen(row);
}

// From where a row was to where it is; what rises passes over what sinks.
function glide(row, above) {
  const lifted = above > 0 ? { zIndex: 4, boxShadow: "0 6px 24px #0003" } : { zIndex: 0 };
  const frames = [
    { transform: `translateY(${above}px)`, ...lifted },
    { transform: "none", ...lifted },
  ];
  row.animate(frames, MOVE);
}

function fadeOut(list, row, top) {
  row.classList.add("leaving");
  row.inert = true;
  row.style.top = `${top}px`;
  list.append(row);
  const gone = () => row.remove();
  row.animate([{ opacity: 1 }, { opacity: 0 }], { ...MOVE, fill: "forwards" }).finished.then(gone, gone);
}

function renderList(system, results, animated) {
  const list = byId(system);
  for (const row of list.querySelectorAll(".leaving")) row.remove();
  const before = new Map(
    [...list.children].map((row) => [row.dataset.id, { row, top: row.offsetTop, rank: row.result.rank }]),
  );
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  const rows = results.map((result, place) => {
    const row = (animated && before.get(result.id)?.row) || newRow(system);
    fillCard(row, system, result, results[place - 1] ?? null, results[place + 1] ?? null);
    return row;
  });
  const moves = [];
  // Moving a focused element blurs it: the focus is given back.
  list.replaceChildren(...rows);
  if (rows.length) rove(rows.find((row) => row.contains(focused)) ?? rows[0]);
  if (focused && list.contains(focused)) {
    focused.focus({ preventScroll: true });
    // The first has nothing above it, so its button is gone.
    if (document.activeElement !== focused)
      focused.closest("li").querySelector(".title").focus({ preventScroll: true });
  }
  for (const row of rows) {
    const earlier = before.get(row.dataset.id);
    if (animated && isOpen(row)) openRow(row, system);
    if (!animated || before.size === 0) continue;
    if (earlier && earlier.rank !== row.result.rank) moves.push({ row, from: earlier.rank, to: row.result.rank });
    if (calm()) continue;
    if (!earlier) row.animate([{ opacity: 0 }, { opacity: 1 }], MOVE);
    else if (earlier.top !== row.offsetTop) glide(row, earlier.top - row.offsetTop);
  }
  if (animated && !calm()) {
    const kept = new Set(rows);
    for (const { row, top } of before.values()) if (!kept.has(row)) fadeOut(list, row, top);
  }
  return moves;
}

// Shows the answer of the state; `animated` when it is a later version of the lists shown. Returns what moved in the
// learned list.
export function renderResults(animated) {
  const { answer } = state;
  const two = isCompared(answer);
  for (const system of SYSTEMS) for (const result of answer[system]) rememberTitle(result.id, titleOf(result));
  byId("baseline-name").textContent = answer.baseline_name;
  byId("learned-name").textContent = isMixed(answer) ? "Results" : two ? "Learned" : answer.baseline_name;
  byId("learned").dataset.version = answer.version;
  for (const part of ["lists", "switch"]) byId(part).classList.toggle("alone", !two);
  byId("lists").classList.toggle("mixed", isMixed(answer));
  if (!two) showList("learned");
  document.querySelector("#switch [data-list=baseline]").textContent = answer.baseline_name;
  renderList("baseline", two ? answer.baseline : [], animated);
  for (const system of SYSTEMS) {
    const none = byId(`${system}-none`);
    none.hidden = answer[system].length > 0;
    none.textContent = "No document has these words.";
  }
  const moves = renderList("learned", answer.learned, animated);
  light(null);
  drawSlopesFor(animated && !calm() ? MOVE.duration + 80 : 0);
  return moves;
}

export const sayMoves = (moves) =>
  moves
    .filter((move) => move.to < move.from)
    .map((move) => `${nameOf(move.row.result)} moved from ${move.from} to ${move.to}`)
    .join(". ");

export function flash(id) {
  const row = rowOf(id);
  if (!row) return;
  row.classList.remove("flash");
  void row.offsetWidth; // restart the animation of the style sheet
  row.classList.add("flash");
}

// While something is being learned nothing else can be said; the card that it is about shows it.
export function setWorking(id) {
  byId("learned").setAttribute("aria-busy", String(id !== null));
  for (const row of rowsOf("learned")) {
    row.classList.toggle("working", row.dataset.id === id);
    for (const button of row.querySelectorAll(".teach button")) button.setAttribute("aria-disabled", String(id !== null));
  }
}

export function showList(system) {
  byId("lists").dataset.shown = system;
  for (const button of byId("switch").children)
    button.setAttribute("aria-pressed", String(button.dataset.list === system));
  drawSlopes();
}

export function prepareResults() {
  for (const button of byId("switch").children) button.addEventListener("click", () => showList(button.dataset.list));
}

export function found(answer) {
  const learned = counted(answer.learned.length, "result");
  if (isMixed(answer)) return learned;
  if (!answer.compared) return `${learned} of ${answer.baseline_name}`;
  return `${learned} learned, ${answer.baseline.length.toLocaleString("en")} of ${answer.baseline_name}`;
}
