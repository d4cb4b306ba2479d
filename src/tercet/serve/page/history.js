// What was learned here, newest first; what still counts can be undone.

import { ask } from "./api.js";
import { byId, counted, el, openDialog, quoted } from "./dom.js";
import { knownTitle, rememberTitle } from "./names.js";

const LIMIT = 50;
const TITLES = 20; // documents not seen yet whose titles are asked for
const NAMED = 8; // entries that were taken back at once and are named; there may be thousands
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

function described(item) {
  const query = [" for ", el("bdi", null, quoted(item.query ?? ""))];
  if (item.kind === "prefer") return [titled(item.better), " over ", titled(item.worse), ...query];
  if (item.kind === "clicks") return [`${counted(item.clicked.length, "click")} among ${item.shown.length}`, ...query];
  if (item.kind === "renew") return [item.reason === "bake" ? "What was taught became a model" : "A model was promoted"];
  const named = item.entries.slice(0, NAMED).map((entry) => `v${entry}`);
  const more = item.entries.length - named.length;
  const all = more ? `${named.join(", ")} and ${counted(more, "other")}` : named.join(", ");
  return [`${item.reason === "undo" ? "Taken back" : "Revoked"}: ${all}`];
}

// What was said, for the message on taking it back.
const saidOf = (item) =>
  item.kind === "prefer"
    ? `${quoted(knownTitle(item.better))} over ${quoted(knownTitle(item.worse))}`
    : `${counted(item.clicked.length, "click")} for ${quoted(item.query)}`;

// `ends` tells when an entry was taken back, and by what.
function row(item, ends) {
  const end = ends.get(item.entry);
  const button =
    item.active && (item.kind === "prefer" || item.kind === "clicks")
      ? el("button", { type: "button", "aria-label": `Take back ${item.version}: ${saidOf(item)}` }, "Undo")
      : null;
  button?.addEventListener("click", async () => {
    button.setAttribute("aria-disabled", "true");
    const problem = await undo([item.entry], saidOf(item));
    await fill(problem);
    byId("history").querySelector(".close").focus(); // the button is gone
  });
  const back = end?.reason === "revoke" ? " · revoked " : " · taken back ";
  return el(
    "li",
    { class: item.active ? null : "inactive" },
    el("span", { class: "version" }, item.version),
    el(
      "div",
      null,
      el("p", null, ...described(item)),
      el("p", { class: "soft" }, when(item.time), item.active ? null : back, end ? when(end.time) : null),
    ),
    button,
  );
}

// Taking back is told with what was taken back; by itself only where that is not listed.
function rowsFor(versions) {
  const listed = new Set(versions.map((item) => item.entry));
  const ends = new Map();
  for (const item of versions)
    if (item.kind === "withdraw") for (const entry of item.entries) ends.set(entry, item);
  const isReported = (item) => item.kind === "withdraw" && item.entries.every((entry) => listed.has(entry));
  return versions.filter((item) => !isReported(item)).map((item) => row(item, ends));
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
    const found = await ask("versions", { limit: LIMIT });
    const rows = rowsFor(found.versions);
    const earlier = found.total - found.versions.length;
    const base = earlier > 0 ? el("p", { class: "soft" }, `${counted(earlier, "earlier entry", "earlier entries")} not shown.`) : null;
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
