// The page: the query lives in the address, the answer in two lists.

import { ask, glance, send } from "./api.js";
import { byId, counted, el, prepareDialogs, quoted, say, shortened, wordsOf } from "./dom.js";
import { openGraph, prepareGraph } from "./graph.js";
import { openHistory, prepareHistory } from "./history.js";
import {
  flash,
  found,
  isCompared,
  listKey,
  nameOf,
  prepareResults,
  renderResults,
  rowsOf,
  sayMoves,
  setPreferring,
} from "./results.js";
import { keepSlopes } from "./slopes.js";

const K = 10;
const MOST = 1_000; // that the service gives
const PATIENCE = 10_000; // milliseconds that we wait for a preference to be applied
let current = null; // the answer shown
let size = K; // results of each list
let all = false; // whether those below the last match are shown, too
let request = null;
let retry = 0;
let lastEntry = null; // what Undo takes back
let lastBetter = null;
let busy = false;

const pause = (milliseconds) =>
  new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
  });
const queryOf = (address) => new URLSearchParams(address).get("q")?.trim() ?? "";

// -- searching --------------------------------------------------------------------------------------------------------

function show(state) {
  document.body.dataset.state = state;
  byId("welcome").hidden = state !== "start";
  byId("notice").hidden = state !== "notice";
  for (const part of ["summary", "lists", "switch", "more"]) byId(part).hidden = state !== "results";
}

function notice(title, text, ...actions) {
  byId("notice").replaceChildren(
    ...[el("h1", null, title), text && el("p", { dir: "auto" }, text), ...actions].filter(Boolean),
  );
}

const asked = (query) => ({ q: query, k: size, ...(all ? { all } : {}) });

async function search(query, attempt = 0) {
  if (query !== current?.query) {
    size = K;
    all = false;
  }
  request?.abort();
  clearInterval(retry);
  byId("q").value = query;
  document.title = query ? `${query} · Tercet` : "Tercet";
  if (!query) {
    current = null;
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
    failed(problem, query, attempt);
  } finally {
    clearTimeout(slow);
    if (mine === request) {
      document.body.classList.remove("waiting");
      byId("results").removeAttribute("aria-busy");
    }
  }
}

function display(answer, animated) {
  current = answer;
  const unknown = answer.unknown ?? [];
  const named = unknown.map(quoted).join(", ");
  byId("version").textContent = answer.version;
  byId("version").setAttribute("aria-label", `Version ${answer.version}: history`);
  if (!answer.learned.length && !answer.baseline.length) {
    const why = emptiness(answer, unknown, named);
    notice(`Nothing found for ${quoted(shortened(answer.query, 80))}`, why);
    show("notice");
    say(`Nothing found. ${why}`);
    return [];
  }
  describe(answer, unknown, named);
  offerMore(answer);
  show("results");
  const moves = renderResults(answer, animated);
  if (!animated) say(`${found(answer)}, version ${answer.version}.${named ? ` Unknown: ${named}.` : ""}`);
  return moves;
}

// Why nothing was found. A word that nearly every document has is not looked for.
function emptiness(answer, unknown, named) {
  const frequent = (answer.stop_words ?? []).map(quoted).join(", ");
  const many = (answer.stop_words ?? []).length > 1;
  const skipped = frequent
    ? `${frequent} ${many ? "are" : "is"} in so many documents that ${many ? "they are" : "it is"} not searched for. `
    : "";
  if (unknown.length)
    return `${skipped}No document has ${named}, nor a word that was learned near ${unknown.length === 1 ? "it" : "them"}.`;
  return skipped ? `${skipped}Add a word that tells more.` : "No document has these words, nor words learned near them.";
}

// More of the same, and what is below the last match.
function offerMore(answer) {
  const offers = [];
  const full = Math.max(answer.learned.length, answer.baseline.length) >= size;
  if (full && size < MOST)
    offers.push(
      el(
        "button",
        { type: "button", class: "chip", onclick: () => extend(Math.min(MOST, size + K), all) },
        `Show ${K} more`,
      ),
    );
  if (answer.left_off)
    offers.push(
      el(
        "button",
        { type: "button", class: "chip", onclick: () => extend(size, true), title: "Without a word of the query" },
        `Show ${counted(answer.left_off, "weaker result")}`,
      ),
    );
  if (!full && !answer.left_off) offers.push(el("span", { class: "soft" }, "No more results."));
  byId("more").replaceChildren(...offers);
}

// The list grows where the reader is: what was the first new result gets the focus.
async function extend(results, weaker) {
  const before = current.learned.length;
  size = results;
  all = weaker;
  await search(current.query);
  rowsOf(byId("lists").dataset.shown)[before]?.querySelector(".title").focus();
}

function describe(answer, unknown, named) {
  const facts = [];
  if (!answer.compared) facts.push("Nothing is learned yet: prefer a result over the one above it");
  if (isCompared(answer)) {
    const moved = answer.learned.filter((result) => result.baseline_rank !== result.rank).length;
    facts.push(moved ? `Learning moved ${moved} of ${answer.learned.length}` : "Learning left the order as it was");
  }
  if (Number.isFinite(answer.took_ms))
    facts.push(`${answer.took_ms < 10 ? answer.took_ms.toFixed(1) : Math.round(answer.took_ms)} ms`);
  const line = [facts.join(" · ")];
  if (answer.partial) line.push(el("span", { class: "badge bad" }, "partial: the time limit was reached"));
  else if (answer.exact === false) line.push(el("span", { class: "badge" }, "approximate"));
  if (unknown.length)
    line.push(
      el(
        "span",
        { class: "badge bad", dir: "auto" },
        `unknown ${counted(unknown.length, "word").replace(/^\S+ /, "")}: ${named}`,
      ),
    );
  byId("heading").textContent = `Results for ${quoted(shortened(answer.query, 80))}`;
  byId("facts").replaceChildren(...line);
  const skipped = new Set(unknown.map((word) => word.toLowerCase()));
  // Where nothing is learned, a word has no neighbours.
  const words = (answer.compared ? wordsOf(answer.query) : []).filter((word) => !skipped.has(word)).slice(0, 8);
  byId("words").replaceChildren(
    ...(words.length ? [el("span", { class: "soft" }, "Neighbours of")] : []),
    ...words.map((word) =>
      el(
        "button",
        { type: "button", class: "chip", "aria-haspopup": "dialog", onclick: () => openGraph(word) },
        el("bdi", null, word),
      ),
    ),
  );
}

function failed(problem, query, attempt) {
  const again = el("button", { type: "button", onclick: () => search(query) }, "Try again");
  const waits = problem.status === 429 || problem.status === 503;
  if (waits && attempt < 3) {
    let seconds = Math.ceil(problem.retryAfter ?? 2 ** attempt);
    const clock = el("p", { class: "soft", "aria-live": "off" });
    const tick = () => {
      clock.textContent = `Trying again in ${counted(seconds, "second")}.`;
    };
    tick();
    retry = setInterval(() => {
      seconds -= 1;
      if (seconds <= 0) search(query, attempt + 1);
      else tick();
    }, 1000);
    notice(problem.status === 429 ? "A little too fast" : "The service is busy", problem.message, clock, again);
  } else if (problem.status === 0) {
    notice(
      "The service is away",
      "It does not answer. What was learned is safe with it; try again when it runs.",
      again,
    );
  } else if (problem.status === 401) {
    notice("A token is needed", "This service answers only with a token.", again);
  } else {
    notice(problem.title, problem.message, problem.status >= 500 || waits ? again : null);
  }
  show("notice");
  current = null;
  say(byId("notice").querySelector("h1").textContent);
}

function go(query) {
  const address = query ? `?${new URLSearchParams({ q: query })}` : location.pathname;
  if (query === queryOf(location.search)) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  return search(query);
}

// -- preferring -------------------------------------------------------------------------------------------------------

const numberOf = (version) => Number.parseInt(version.slice(1), 10); // "v12" has all entries up to the 12th

// Asks until the answer has an entry in it, and shows it. Returns what moved, or null when it took too long.
async function awaitEntry(entry) {
  const query = current.query;
  const until = performance.now() + PATIENCE;
  for (let wait = 40; ; wait = Math.min(wait * 1.6, 600)) {
    const answer = await ask("search", asked(query));
    if (current?.query !== query) return null;
    if (numberOf(answer.version) >= entry) return display(answer, true);
    if (performance.now() > until) return null;
    await pause(wait);
  }
}

// Sends a change and shows what it did. Returns why it was refused, or null.
async function learn(path, body, described) {
  if (busy) return null;
  busy = true;
  try {
    const accepted = await send(path, body);
    lastEntry = path === "prefer" ? accepted.entry : null;
    await showLearned(accepted.entry, described, accepted.effect?.said);
    return null;
  } catch (problem) {
    const wait = problem.retryAfter ? ` Try again in ${counted(Math.ceil(problem.retryAfter), "second")}.` : "";
    const refused = path === "prefer" ? "The preference was not taken." : "Nothing was undone.";
    toast(`${refused} ${problem.message}${wait}`, null, true);
    say(byId("toast-text").textContent);
    return problem;
  } finally {
    busy = false;
  }
}

// The change is kept already: what fails from here on is only that it can be seen.
// `said` is the service's own sentence on what a preference changed, where it could tell.
async function showLearned(entry, described, said) {
  let moves = null;
  try {
    if (current !== null) moves = await awaitEntry(entry);
  } catch (problem) {
    toast(`${described} It is kept, but the list could not be asked for again. ${problem.message}`, lastEntry);
    say(byId("toast-text").textContent);
    return;
  }
  if (moves === null) toast(`${described} It is kept, and counts soon.`, lastEntry);
  else {
    const order = said ?? (moves.length ? "" : "The order is the same for now.");
    toast(`${described}${order && ` ${order}`}${lastEntry === null ? "" : ` Now ${current.version}.`}`, lastEntry); // undoing is no step on
  }
  say([byId("toast-text").textContent, moves && sayMoves(moves)].filter(Boolean).join(" "));
}

async function prefer(better, worse) {
  if (busy) return;
  lastBetter = better.id;
  setPreferring(better.id);
  const problem = await learn(
    "prefer",
    { query: current.query, better: better.id, worse: worse.id },
    `You preferred ${nameOf(better, 48)} over ${nameOf(worse, 48)}.`,
  );
  setPreferring(null);
  if (problem === null) flash(better.id);
}

const undo = (entry, described) => learn("undo", { entry }, described);

async function undoLast() {
  if (busy || lastEntry === null) return;
  closeToast();
  const problem = await undo(lastEntry, "Your last preference is undone.");
  if (problem === null) flash(lastBetter);
}

// What had the focus in the message must not lose it: it goes back to the result that the message is about.
function closeToast() {
  const focused = byId("toast").contains(document.activeElement);
  byId("toast").hidden = true;
  if (focused)
    (
      rowsOf("learned")
        .find((row) => row.dataset.id === lastBetter)
        ?.querySelector(".title") ?? byId("q")
    ).focus();
}

function toast(text, entry, bad = false) {
  byId("toast-text").textContent = text;
  byId("toast-undo").hidden = entry === null || entry === undefined;
  byId("toast").classList.toggle("bad", bad);
  byId("toast").hidden = false;
}

// -- wiring -----------------------------------------------------------------------------------------------------------

function onKey(event) {
  // Keys that make up a character belong to the input method; what a browser fills in comes without a key.
  if (event.isComposing || !event.key) return;
  if (document.querySelector("dialog[open]")) return;
  const typing = event.target.matches?.("input, textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    byId("q").focus();
    byId("q").select();
  } else if (event.key === "ArrowDown" && event.target === byId("q")) {
    const shown = byId("lists").hidden ? [] : rowsOf(byId("lists").dataset.shown);
    if (shown.length) {
      event.preventDefault();
      shown[0].querySelector(".title").focus();
    }
  } else if (listKey(event)) {
    event.preventDefault();
  } else if (
    event.key.toLowerCase() === "u" &&
    !event.ctrlKey &&
    !event.metaKey &&
    !event.altKey &&
    event.target.closest?.("#lists li, #toast")
  ) {
    undoLast();
  } else if (event.key === "Escape" && !typing) {
    if (!byId("toast").hidden) closeToast();
    else byId("q").focus();
  }
}

// What is searched, and three ways to begin.
async function introduce() {
  const found = await glance("collection");
  if (found === null) return;
  byId("collection").textContent = `Searches ${counted(found.documents, "document")}${found.name ? ` · ${found.name}` : ""}`;
  byId("collection").hidden = false;
  if (!found.examples.length) return;
  byId("examples").replaceChildren(
    el("span", { class: "soft" }, "Try "),
    ...found.examples.map((query) =>
      el("button", { type: "button", class: "chip", onclick: () => go(query) }, el("bdi", null, query)),
    ),
  );
  byId("examples").hidden = false;
}

function start() {
  introduce();
  prepareDialogs();
  prepareGraph((word) => go(word));
  prepareHistory(undo);
  prepareResults(prefer);
  keepSlopes();
  byId("search").addEventListener("submit", (event) => {
    event.preventDefault();
    byId("toast").hidden = true;
    go(byId("q").value.trim());
  });
  byId("open-history").addEventListener("click", openHistory);
  byId("version").addEventListener("click", openHistory);
  byId("toast-undo").addEventListener("click", undoLast);
  byId("toast-close").addEventListener("click", closeToast);
  addEventListener("keydown", onKey);
  addEventListener("popstate", () => {
    for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
    search(queryOf(location.search));
  });
  const query = queryOf(location.search);
  search(query);
  if (!query) byId("q").focus();
}

start();
