// What was learned here, newest first; what still counts can be undone.

import { ask } from "./api.js";
import { byId, counted, el, openDialog, quoted } from "./dom.js";
import { knownTitle, rememberTitle } from "./names.js";

const LIMIT = 50;
const TITLES = 20; // documents not seen yet whose titles are asked for
let undo = async () => null;

export function prepareHistory(onUndo) {
  undo = onUndo;
}

function when(value) {
  const date = new Date(value);
  if (Number.isNaN(date.getTime())) return String(value);
  return el(
    "time",
    { datetime: date.toISOString() },
    date.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" }),
  );
}

// By its title, and its id, since others may be called the same.
const titled = (id) =>
  el("span", { "data-doc": id }, el("bdi", { class: "strong" }, knownTitle(id)), el("bdi", { class: "id" }, idBeside(id)));
const idBeside = (id) => (knownTitle(id) === id ? "" : ` ${id}`);

// The document that a move is about is in all of its pairs, and the others that it went past come first.
function partsOf({ kind, pairs }) {
  const [[better, worse]] = pairs;
  if (kind === "reject") return { doc: worse, word: "is not relevant", others: [] };
  const is = (id) => pairs.every((pair) => pair.includes(id));
  if (kind === "prefer" || is(better)) {
    const others = pairs.filter(([first]) => first === better).map(([, second]) => second);
    return { doc: better, word: "over", others };
  }
  return { doc: worse, word: "under", others: pairs.filter(([, second]) => second === worse).map(([first]) => first) };
}

function described(item) {
  const { doc, word, others } = partsOf(item);
  const rest = others.length > 1 ? ` and ${counted(others.length - 1, "other")}` : "";
  const over = others.length ? [" ", titled(others[0]), rest] : [];
  return [titled(doc), ` ${word}`, ...over, " for ", el("bdi", null, quoted(item.query))];
}

// What was said, for the message on undoing it.
function saidOf(item) {
  const { doc, word, others } = partsOf(item);
  return [quoted(knownTitle(doc)), word, ...others.slice(0, 1).map((id) => quoted(knownTitle(id)))].join(" ");
}

function row(item) {
  const name = `#${item.action}`;
  const canUndo = item.undone === null && !item.in_model;
  const button = canUndo
    ? el("button", { type: "button", "aria-label": `Take back ${name}: ${saidOf(item)}` }, "Undo")
    : null;
  button?.addEventListener("click", async () => {
    button.setAttribute("aria-disabled", "true");
    const problem = await undo([item.action], saidOf(item));
    await fill(problem);
    byId("history").querySelector(".close").focus(); // the button is gone
  });
  const end = item.undone === null ? (item.in_model ? " · part of the model" : null) : " · taken back ";
  return el(
    "li",
    { class: item.undone === null ? null : "inactive" },
    el("span", { class: "version" }, name),
    el(
      "div",
      null,
      el("p", null, ...described(item)),
      el("p", { class: "soft" }, when(item.time), ` · ${item.token}`, end, item.undone ? when(item.undone) : null),
    ),
    button,
  );
}

async function fillTitles(body) {
  const missing = [...new Set([...body.querySelectorAll("[data-doc]")].map((node) => node.dataset.doc))].filter(
    (id) => knownTitle(id) === id,
  );
  for (const id of missing.slice(0, TITLES)) {
    try {
      rememberTitle(id, (await ask("documents", { id })).title);
    } catch (problem) {
      if (problem.status === 404) continue; // gone from the index: it keeps its id, others have titles
      return;
    }
    for (const node of body.querySelectorAll("[data-doc]")) if (node.dataset.doc === id) node.replaceWith(titled(id));
  }
}

async function fill(problem = null) {
  const body = byId("history-body");
  body.setAttribute("aria-busy", "true");
  try {
    const found = await ask("taught", { limit: LIMIT });
    const rows = found.actions.map(row);
    const earlier = found.total - found.actions.length;
    const base = earlier > 0 ? el("p", { class: "soft" }, `${counted(earlier, "earlier action")} not shown.`) : null;
    const list = rows.length
      ? el("ol", { class: "entries" }, rows)
      : el(
          "p",
          { class: "empty" },
          "Nothing was taught here yet. Say that a result is better or worse, and it shows here.",
        );
    body.replaceChildren(
      ...[problem && el("p", { class: "bad", role: "alert" }, problem.message), list, base].filter(Boolean),
    );
  } catch (failure) {
    body.replaceChildren(el("p", { class: "empty bad", role: "alert" }, failure.message));
  } finally {
    body.removeAttribute("aria-busy");
  }
  fillTitles(body);
}

export function openHistory() {
  byId("history-body").replaceChildren();
  openDialog(byId("history"));
  return fill();
}
