// The two lists. Rows are kept by document, so that a new version moves them instead of replacing them.

import { noteClick } from "./api.js";
import { byId, calm, counted, el, hiddenText, number, quoted, shortened, wordsOf } from "./dom.js";
import { fillReasons } from "./reasons.js";
import { drawSlopes, drawSlopesFor } from "./slopes.js";

const MOVE = { duration: 620, easing: "cubic-bezier(.25, .75, .2, 1)" };
const SYSTEMS = ["baseline", "learned"];
let shown = null; // the last answer of the service
let prefer = () => {};
let serial = 0;

export const rowsOf = (system) => [...byId(system).children].filter((row) => !row.classList.contains("leaving"));
export const titleOf = (result) => (result.title ?? "").trim() || result.id;

// Not when nothing is learned yet, nor when the deadline passed before there was a list to compare with.
export const isCompared = (answer) => answer.compared && (!answer.partial || answer.baseline.length > 0);

// A result in a sentence: by its title, and by its id where others shown are called the same.
export function nameOf(result, most = 60) {
  const title = titleOf(result);
  const twins = SYSTEMS.flatMap((system) => shown?.[system] ?? []).some(
    (other) => other.id !== result.id && titleOf(other) === title,
  );
  return quoted(shortened(title, most)) + (twins ? ` (${shortened(result.id, most)})` : "");
}

// What a document carries along: a price, a date; addresses can be followed.
function carriedParts(carried) {
  return Object.entries(carried ?? {}).flatMap(([name, value]) => {
    const text = String(value);
    const shownValue = /^https?:\/\/\S+$/i.test(text)
      ? el(
          "a",
          { href: text, target: "_blank", rel: "noopener noreferrer" },
          shortened(text.replace(/^https?:\/\/(www\.)?|\/$/gi, ""), 32),
        )
      : el("bdi", null, shortened(text, 80));
    return [el("span", { class: "value" }, el("span", { class: "soft" }, `${name} `), shownValue)];
  });
}

const titles = new Map(); // of all documents seen, for the history
export const knownTitle = (id) => titles.get(id) ?? id;
export const rememberTitle = (id, title) => titles.set(id, title.trim() || id);

// Words of the query in a snippet; the service's analyser decides what matches, this only helps the eye.
function marked(text, query) {
  const sought = wordsOf(query);
  if (!sought.length) return [text];
  const near = (piece) =>
    sought.some(
      (word) =>
        piece === word ||
        (Math.abs(piece.length - word.length) < 4 &&
          piece.slice(0, Math.max(4, word.length - 2)) === word.slice(0, Math.max(4, word.length - 2))),
    );
  return text
    .split(/([\p{L}\p{N}\p{M}_]+)/u)
    .map((piece) => (near(piece.toLowerCase()) ? el("mark", null, piece) : piece));
}

// What learning did to a document. In both lists it is told from the baseline's rank to the learned one.
function movement(system, result, names) {
  if (!isCompared(shown)) return { way: "same", text: "", said: "" };
  const [from, to] = system === "learned" ? [result.baseline_rank, result.rank] : [result.rank, result.learned_rank];
  if (from === null) return { way: "new", text: "new", said: `not found by ${names.baseline}` };
  if (to === null) return { way: "gone", text: "–", said: "not among the learned results" };
  if (from === to) return { way: "same", text: "=", said: "not moved by learning" };
  const way = to < from ? "up" : "down";
  const text = `${to < from ? "▲" : "▼"}\u2009${Math.abs(from - to)}`;
  return { way, text, said: `moved ${way} by ${Math.abs(from - to)}, from ${from} to ${to}` };
}

function makeRow(system) {
  serial += 1;
  const panel = el("div", { class: "reasons", id: `reasons-${serial}`, hidden: true });
  const title = el("button", {
    type: "button",
    class: "title",
    dir: "auto",
    "aria-expanded": "false",
    "aria-controls": panel.id,
  });
  const button =
    system === "baseline"
      ? null
      : el(
          "button",
          { type: "button", class: "prefer" },
          el("span", { "aria-hidden": "true" }, "↑"),
          el("span", { class: "prefer-text" }, "Prefer this over the one above"),
        );
  const row = el(
    "li",
    null,
    el(
      "div",
      { class: "head" },
      el("span", { class: "rank" }),
      el(
        "div",
        { class: "what" },
        el("div", { class: "line" }, el("h3", null, title), el("bdi", { class: "id" })),
        el("p", { class: "snippet", dir: "auto" }),
        el("p", { class: "carried", dir: "auto" }),
      ),
      el("div", { class: "side" }, el("span", { class: "moved" }), el("span", { class: "score" })),
    ),
    button,
    panel,
  );
  title.addEventListener("click", () => toggle(row, system));
  button?.addEventListener("click", () => preferRow(row));
  for (const event of ["pointerenter", "focusin"]) row.addEventListener(event, () => light(row.dataset.id));
  for (const event of ["pointerleave", "focusout"]) row.addEventListener(event, () => light(null));
  return row;
}

function light(id) {
  for (const system of SYSTEMS)
    for (const row of byId(system).children) row.classList.toggle("lit", row.dataset.id === id);
  byId("lists").classList.toggle("lighting", id !== null);
  drawSlopes();
}

function fillRow(row, system, result, above, names) {
  const at = movement(system, result, names);
  row.dataset.id = result.id;
  row.dataset.way = at.way;
  row.result = result;
  row.querySelector(".rank").textContent = String(result.rank);
  row.querySelector(".title").textContent = titleOf(result);
  row.querySelector(".id").textContent = result.id === titleOf(result) ? "" : result.id;
  row.querySelector(".snippet").replaceChildren(...marked(result.snippet ?? "", shown.query));
  const values = carriedParts(result.carried);
  row.querySelector(".carried").hidden = !values.length;
  row.querySelector(".carried").replaceChildren(...values);
  row.querySelector(".moved").className = `moved ${at.way}`;
  row.querySelector(".moved").title = at.said;
  row.querySelector(".moved").replaceChildren(el("span", { "aria-hidden": "true" }, at.text), hiddenText(at.said));
  row.querySelector(".score").replaceChildren(hiddenText("score "), number(result.score));
  const button = row.querySelector(".prefer");
  if (button === null) return;
  button.hidden = above === null;
  if (above !== null) {
    button.setAttribute(
      "aria-label",
      `Prefer this over the one above: ${nameOf(result)} over ${nameOf(above)}`,
    );
  }
}

function openRow(row, system) {
  const rows = rowsOf(system);
  const place = rows.indexOf(row);
  return fillReasons(row.querySelector(".reasons"), {
    query: shown.query,
    system,
    result: row.result,
    versus: place > 0 ? rows[place - 1].dataset.id : null,
  });
}

export function isOpen(row) {
  return row.querySelector(".title").getAttribute("aria-expanded") === "true";
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
  if (system === "learned" && shown.query_id) noteClick(shown.query_id, row.dataset.id);
  // The panel appears with its content, so that the list moves once; or as it is when that takes long.
  const slow = setTimeout(() => {
    panel.hidden = !isOpen(row);
  }, 300);
  await openRow(row, system);
  clearTimeout(slow);
  panel.hidden = !isOpen(row);
}

export function preferRow(row) {
  const rows = rowsOf("learned");
  const place = rows.indexOf(row);
  if (place > 0) prefer(row.result, rows[place - 1].result);
}

function renderList(system, results, animated, names) {
  const list = byId(system);
  for (const row of list.querySelectorAll(".leaving")) row.remove();
  const before = new Map(
    [...list.children].map((row) => [row.dataset.id, { row, top: row.offsetTop, rank: row.result.rank }]),
  );
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  const rows = results.map((result, place) => {
    const row = (animated && before.get(result.id)?.row) || makeRow(system);
    fillRow(row, system, result, place ? results[place - 1] : null, names);
    return row;
  });
  const moves = [];
  const kept = new Set(rows);
  // Moving a focused element blurs it: rows are put in order around it where possible, and the focus is given back.
  list.replaceChildren(...rows);
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
    else if (earlier.top !== row.offsetTop) {
      const below = earlier.top - row.offsetTop;
      // What rises passes over what sinks.
      const lifted = below > 0 ? { zIndex: 4, boxShadow: "0 6px 24px #0003" } : { zIndex: 0 };
      row.animate(
        [
          { transform: `translateY(${below}px)`, ...lifted },
          { transform: "none", ...lifted },
        ],
        MOVE,
      );
    }
  }
  if (animated && !calm()) {
    for (const { row, top } of before.values()) {
      if (kept.has(row)) continue;
      row.classList.add("leaving");
      row.inert = true;
      row.style.top = `${top}px`;
      list.append(row);
      row.animate([{ opacity: 1 }, { opacity: 0 }], { ...MOVE, fill: "forwards" }).finished.then(
        () => row.remove(),
        () => row.remove(),
      );
    }
  }
  return moves;
}

// Shows an answer; `animated` when it is a later version of the lists shown. Returns what moved in the learned list.
export function renderResults(answer, animated) {
  shown = answer;
  for (const system of SYSTEMS) for (const result of answer[system]) rememberTitle(result.id, titleOf(result));
  const names = { baseline: answer.baseline_name ?? "BM25", learned: "the learned list" };
  byId("baseline-name").textContent = names.baseline;
  byId("learned-title").textContent = answer.compared ? "Learned" : names.baseline;
  byId("lists").classList.toggle("alone", !answer.compared);
  byId("switch").classList.toggle("alone", !answer.compared);
  if (!answer.compared) showList("learned");
  document.querySelector("#switch [data-list=baseline]").textContent = names.baseline;
  renderList("baseline", answer.baseline, animated, names);
  for (const system of SYSTEMS) {
    const none = byId(`${system}-none`);
    none.hidden = answer[system].length > 0;
    none.textContent = isCompared(answer) ? "No document has these words." : "Left out: the time limit was reached.";
  }
  const moves = renderList("learned", answer.learned, animated, names);
  light(null);
  drawSlopesFor(animated && !calm() ? MOVE.duration + 80 : 0);
  return moves;
}

export function sayMoves(moves) {
  const risen = moves.filter((move) => move.to < move.from);
  return risen
    .map((move) => `${nameOf(move.row.result)} moved from ${move.from} to ${move.to}`)
    .join(". ");
}

export function flash(id) {
  const row = rowsOf("learned").find((other) => other.dataset.id === id);
  if (!row) return;
  row.classList.remove("flash");
  void row.offsetWidth; // restart the animation of the style sheet
  row.classList.add("flash");
}

export function setPreferring(id) {
  byId("learned").setAttribute("aria-busy", String(id !== null));
  for (const row of rowsOf("learned")) {
    const button = row.querySelector(".prefer");
    button.setAttribute("aria-disabled", String(id !== null));
    button.classList.toggle("working", row.dataset.id === id);
    button.querySelector(".prefer-text").textContent =
      row.dataset.id === id ? "Learning…" : "Prefer this over the one above";
  }
}

// Arrow keys, P and Escape within the lists. Returns true when the key was used.
export function listKey(event) {
  const row = event.target.closest?.("#lists li");
  if (!row || event.altKey || event.ctrlKey || event.metaKey) return false;
  if (event.target.matches(".text") && event.key.startsWith("Arrow")) return false; // they scroll it
  const system = row.parentNode.id;
  const rows = rowsOf(system);
  const place = rows.indexOf(row);
  const focus = (other) => {
    other?.querySelector(".title").focus();
    return true;
  };
  if (event.key === "ArrowDown") return focus(rows[Math.min(place + 1, rows.length - 1)]);
  if (event.key === "ArrowUp") {
    if (place === 0) byId("q").focus();
    else focus(rows[place - 1]);
    return true;
  }
  if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
    const target = event.key === "ArrowLeft" ? "baseline" : "learned";
    if (target === system) return true;
    showList(target);
    const others = rowsOf(target);
    return focus(
      others.find((other) => other.dataset.id === row.dataset.id) ?? others[Math.min(place, others.length - 1)],
    );
  }
  if (event.key === "p" || event.key === "P") {
    if (system === "learned") preferRow(row);
    return true;
  }
  if (event.key === "Escape" && isOpen(row)) {
    toggle(row, system);
    return focus(row);
  }
  return false;
}

export function showList(system) {
  byId("lists").dataset.shown = system;
  for (const button of byId("switch").children)
    button.setAttribute("aria-pressed", String(button.dataset.list === system));
  drawSlopes();
}

export function prepareResults(onPrefer) {
  prefer = onPrefer;
  for (const button of byId("switch").children) button.addEventListener("click", () => showList(button.dataset.list));
}

export const found = (answer) =>
  !answer.compared
    ? `${counted(answer.learned.length, "result")} of ${answer.baseline_name ?? "BM25"}`
    : `${counted(answer.learned.length, "result")} learned, ${answer.baseline.length.toLocaleString("en")} of ${answer.baseline_name ?? "BM25"}`;
