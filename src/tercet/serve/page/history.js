// What was learned here, newest first; what still counts can be undone.

import { ask } from "./api.js";
import { byId, counted, el, openDialog, quoted } from "./dom.js";
import { knownTitle, rememberTitle } from "./results.js";

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

const titled = (id) => el("bdi", { class: "strong", "data-doc": id }, knownTitle(id));

function described(item) {
  const query = [" for ", el("bdi", null, quoted(item.query ?? ""))];
  if (item.kind === "prefer") return [titled(item.better), " over ", titled(item.worse), ...query];
  if (item.kind === "clicks") return [`${counted(item.clicked.length, "click")} among ${item.shown.length}`, ...query];
  if (item.kind === "renew") return [item.reason === "bake" ? "What was taught became a model" : "A model was promoted"];
  const named = item.entries.slice(0, NAMED).map((entry) => `v${entry}`);
  const more = item.entries.length - named.length;
  const all = more ? `${named.join(", ")} and ${counted(more, "other")}` : named.join(", ");
  return [`${all} ${item.reason === "undo" ? "undone" : "revoked"}`];
}

function row(item) {
  const button =
    item.active && (item.kind === "prefer" || item.kind === "clicks")
      ? el("button", { type: "button", "aria-label": `Undo ${item.version}` }, "Undo")
      : null;
  button?.addEventListener("click", async () => {
    button.setAttribute("aria-disabled", "true");
    const problem = await undo(item.entry, `${item.version} is undone.`);
    await fill(problem);
    byId("history").querySelector(".close").focus(); // the button is gone
  });
  return el(
    "li",
    { class: item.active ? null : "inactive" },
    el("span", { class: "version" }, item.version),
    el(
      "div",
      null,
      el("p", null, ...described(item)),
      el("p", { class: "soft" }, when(item.time), item.active ? null : " · undone"),
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
    for (const node of body.querySelectorAll("[data-doc]"))
      if (node.dataset.doc === id) node.textContent = knownTitle(id);
  }
}

async function fill(problem = null) {
  const body = byId("history-body");
  body.setAttribute("aria-busy", "true");
  try {
    const found = await ask("versions", { limit: LIMIT });
    const rows = found.versions.map(row);
    const base =
      found.total > rows.length
        ? el("p", { class: "soft" }, `${counted(found.total - rows.length, "earlier version")} not shown.`)
        : null;
    const list = rows.length
      ? el("ol", { class: "entries" }, rows)
      : el(
          "p",
          { class: "empty" },
          "Nothing was learned here yet. Prefer a result over the one above it, and it shows here.",
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
