// The page: the query and its filters live in the address, the answer in two lists.

import { ask, glance, noteAgain } from "./api.js";
import { describe, emptiness, failed, notice, stopRetrying } from "./notices.js";
import { byId, counted, el, openDialog, prepareDialogs, quoted, say, shortened } from "./dom.js";
import { prepareDragging } from "./dragging.js";
import { prepareFilters, renderFilters } from "./filters.js";
import { openHistory, prepareHistory } from "./history.js";
import { prepareKeys } from "./keys.js";
import { found, prepareResults, renderResults, rowsOf } from "./results.js";
import { keepSlopes } from "./slopes.js";
import { PAGE_SIZE, state } from "./state.js";
import { isBusy, place, prepareTeaching, undo } from "./teaching.js";

const MOST = 1_000; // results that the service gives
let request = null;

// -- searching --------------------------------------------------------------------------------------------------------

const asked = (query) => ({
  q: query,
  k: state.size,
  compare: true,
  facets: true,
  ...(state.all ? { all: true } : {}),
  ...(state.filters.length ? { filter: state.filters } : {}),
});

function show(kind) {
  document.body.dataset.state = kind;
  byId("welcome").hidden = kind !== "start";
  byId("notice").hidden = kind !== "notice";
  for (const part of ["summary", "lists", "switch", "more", "hint"]) byId(part).hidden = kind !== "results";
  if (kind !== "results") byId("filters").hidden = true;
}

async function search(query, filters, attempt = 0) {
  if (query !== state.answer?.query || filters.join("\n") !== state.filters.join("\n")) {
    state.size = PAGE_SIZE;
    state.all = false;
  }
  state.filters = filters;
  request?.abort();
  stopRetrying();
  byId("q").value = query;
  document.title = query ? `${query} · Tercet` : "Tercet";
  if (!query) {
    state.answer = null;
    show("start");
    return;
  }
  request = new AbortController();
  const mine = request;
  // Only a slow answer shows that it is awaited: a quick one would flicker.
  const slow = setTimeout(() => {
    document.body.classList.add("waiting");
  }, 180);
  byId("results").setAttribute("aria-busy", "true");
  try {
    const answer = await ask("search", asked(query), mine.signal);
    if (mine !== request) return;
    display(answer, false);
  } catch (problem) {
    if (problem.name === "AbortError" || mine !== request) return;
    state.answer = null;
    failed(problem, attempt, (next) => search(query, filters, next));
    show("notice");
  } finally {
    clearTimeout(slow);
    if (mine === request) {
      document.body.classList.remove("waiting");
      byId("results").removeAttribute("aria-busy");
    }
  }
}

// Shows an answer, and returns what moved.
function display(answer, animated) {
  state.answer = answer;
  if (!answer.learned.length && !answer.baseline.length) {
    const why = emptiness(answer);
    const clear = el("button", { type: "button", onclick: () => go(answer.query, []) }, "Search without filters");
    notice(`Nothing found for ${quoted(shortened(answer.query, 80))}`, why, state.filters.length ? clear : null);
    show("notice");
    say(`Nothing found. ${why}`);
    return [];
  }
  describe(answer);
  show("results");
  renderFilters();
  offerMore(answer);
  const moves = renderResults(animated);
  if (!animated) say(`${found(answer)}. ${byId("facts").textContent}`);
  return moves;
}

// More of the same, and what is below the last match.
function offerMore(answer) {
  const offer = (text, size, all, title) =>
    el("button", { type: "button", class: "chip", title, onclick: () => extend(size, all) }, text);
  const offers = [];
  const full = Math.max(answer.learned.length, answer.baseline.length) >= state.size;
  if (full && state.size < MOST)
    offers.push(offer(`Show ${PAGE_SIZE} more`, Math.min(MOST, state.size + PAGE_SIZE), state.all));
  if (answer.left_off)
    offers.push(
      offer(`Show ${counted(answer.left_off, "weaker result")}`, state.size, true, "Without a word of the query"),
    );
  if (!offers.length) offers.push(el("span", { class: "soft" }, "No more results."));
  byId("more").replaceChildren(...offers);
}

// The list grows where the reader is: what was the first new result gets the focus.
async function extend(size, all) {
  const before = state.answer;
  state.size = size;
  state.all = all;
  await search(before.query, state.filters);
  if (state.answer?.query === before.query) noteAgain(before.query_id, state.answer.query_id);
  rowsOf(byId("lists").dataset.shown)[before.learned.length]?.querySelector(".title").focus();
}

// -- the address ------------------------------------------------------------------------------------------------------

function fromAddress() {
  const parameters = new URLSearchParams(location.search);
  return [parameters.get("q")?.trim() ?? "", parameters.getAll("filter")];
}

function go(query, filters = []) {
  const parameters = new URLSearchParams(query ? [["q", query], ...filters.map((text) => ["filter", text])] : []);
  const address = query ? `?${parameters}` : location.pathname;
  if (`?${parameters}` === location.search) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  return search(query, filters);
}

// What is searched, and three ways to begin.
async function introduce() {
  const about = await glance("collection");
  if (about === null) return;
  const name = about.name ? ` of ${about.name}` : "";
  byId("collection").textContent = `Searches ${counted(about.documents, "document")}${name}`;
  byId("collection").hidden = false;
  if (!about.examples.length) return;
  byId("examples").replaceChildren(
    el("span", { class: "soft" }, "Try"),
    ...about.examples.map((query) =>
      el("button", { type: "button", class: "chip", onclick: () => go(query) }, el("bdi", null, query)),
    ),
  );
  byId("examples").hidden = false;
}

function start() {
  introduce();
  prepareDialogs();
  prepareHistory(undo);
  prepareResults();
  prepareTeaching(display, asked);
  prepareDragging(place, isBusy);
  prepareFilters((filters) => go(state.answer.query, filters));
  const openHelp = () => openDialog(byId("help"));
  prepareKeys(openHelp);
  keepSlopes();
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    byId("toast").hidden = true;
    const query = byId("q").value.trim();
    go(query, query === state.answer?.query ? state.filters : []);
  });
  byId("open-history").addEventListener("click", openHistory);
  for (const button of document.querySelectorAll(".open-help")) button.addEventListener("click", openHelp);
  addEventListener("popstate", () => {
    for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
    search(...fromAddress());
  });
  const [query, filters] = fromAddress();
  search(query, filters);
  if (!query) byId("q").focus();
}

start();
