// What a teacher says of results, one action at a time, and how it is undone.
//
// A card that is moved is better than those it passes, or they are better than it; and the one that it stops at stays
// on its side.

import { ask, send } from "./api.js";
import { byId, counted, say } from "./dom.js";
import { nameOf } from "./names.js";
import { pairName } from "./reasons.js";
import { flash, isOpen, rowOf, rowsOf, sayMoves, setWorking } from "./results.js";
import { dismiss, readmitBy, state } from "./state.js";

const MOST_PASSED = 9; // results that one move is compared with; more of those that were passed are skipped evenly
const BELOW = 3; // results that are better than one that is not relevant
const PATIENCE = 10_000; // milliseconds that we wait for a change to be applied

let display = () => []; // shows an answer and returns what moved
let asked = () => ({});
let last = null; // what Undo takes back: { actions, label, id, key }, the last where it was called not relevant
let busy = false;
let about = null; // the document that the message is about

export const isBusy = () => busy;

const pause = (milliseconds) =>
  new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
  });
const numberOf = (version) => Number.parseInt(version.slice(1), 10); // "v12" has all changes up to the 12th

// Asks until the answer has a change in it, and shows it. Returns what moved, or null when it took too long or other
// results were asked for meanwhile. None of these lists is one that somebody came to look at, so they are not logged.
async function awaitChange(revision) {
  const { query } = state.answer;
  const wanted = { ...asked(query), log: false };
  const isWanted = () =>
    state.answer?.query === query && JSON.stringify({ ...asked(query), log: false }) === JSON.stringify(wanted);
  const until = performance.now() + PATIENCE;
  for (let wait = 40; ; wait = Math.min(wait * 1.6, 600)) {
    const answer = await ask("search", wanted);
    if (!isWanted()) return null;
    if (numberOf(answer.version) >= revision) return display(answer, true);
    if (performance.now() > until) return null;
    await pause(wait);
  }
}

// The change is kept already: what fails from here on is only that it can be seen.
async function showLearned(revision, said, outcome) {
  let moves = null;
  try {
    if (state.answer !== null) moves = await awaitChange(revision);
  } catch (problem) {
    tell(`${said} It is kept, but the list could not be asked for again. ${problem.message}`);
    return;
  }
  const outcomes = moves === null ? "It is kept, and counts soon." : await outcome(moves);
  tell(`${said} ${outcomes}`, moves ? sayMoves(moves) : "");
}

// What each pair of words adds to the score of a result; nothing where that cannot be asked for.
async function pairsOf(id) {
  try {
    const found = await ask("explain", { q: state.answer.query, doc: id, system: "learned" });
    return new Map(found.pairs.map((pair) => [pairName(pair), pair.contribution]));
  } catch {
    return new Map();
  }
}

// Notes the pairs that an action changed, so that reasons show them, and says which changed most.
async function noteTaught(action, id, before) {
  const after = await pairsOf(id);
  const change = (name) => Math.abs(after.get(name) - (before.get(name) ?? 0));
  const changed = [...after.keys()].filter((name) => change(name) > 1e-6).sort((a, b) => change(b) - change(a));
  if (before.size + after.size === 0 || !changed.length) return "";
  state.taught.set(action, new Set(changed));
  if (rowsOf("learned").some(isOpen)) display(state.answer, true); // open reasons mark them
  return ` What did it most: ${changed[0]}.`;
}

function refusal(what, problem) {
  const wait = problem.retryAfter ? ` Try again in ${counted(Math.ceil(problem.retryAfter), "second")}.` : "";
  return `${what} ${problem.message}${wait}`;
}

// Sends an action; whether it was taken. `label` is what was said of a result and another one, as in "A over B"; `key`
// that by which it is called not relevant, if it is.
async function teach(result, other, label, path, body, key = null) {
  if (busy) return false;
  busy = true;
  about = result.id;
  setWorking(result.id);
  try {
    const before = await pairsOf(result.id);
    const taken = await send(path, { query: state.answer.query, ...body });
    last = { actions: [taken.action], label, id: result.id, key };
    if (key !== null) state.dismissed.set(key, last.actions);
    await showLearned(taken.revision, `You said: ${label}.`, async () => outcomeOf(result, other, taken.effect) + (await noteTaught(taken.action, result.id, before)));
    flash(result.id);
    return true;
  } catch (problem) {
    if (state.answer !== null) display(state.answer, true); // what was dragged goes back
    tell(refusal("It was not taken.", problem), "", true);
    return false;
  } finally {
    busy = false;
    setWorking(null);
  }
}

// What it did to the list that is shown, and what the service says where that is nothing.
function outcomeOf(result, other, effect) {
  const moves = [result, other].map((before) => {
    const now = state.answer.learned.find((after) => after.id === before.id)?.rank;
    if (now === before.rank) return null;
    return `${nameOf(before, 40)} went from rank ${before.rank} to ${now === undefined ? "below those shown" : now}`;
  });
  const said = moves.filter(Boolean).join(", ");
  if (said) return `${said}.`;
  return effect && !effect.ahead ? effect.said : "The order is the same for now.";
}

function evenly(results, most) {
  if (results.length <= most) return results;
  return Array.from({ length: most }, (_, i) => results[Math.round((i * (results.length - 1)) / (most - 1))]);
}

// Put the result at one place of the list shown to another, counted from 0.
export function place(from, to) {
  const order = state.answer.learned;
  const result = order[from];
  if (!result || !order[to] || from === to) return null;
  const up = to < from;
  const passed = up ? order.slice(to, from).reverse() : order.slice(from + 1, to + 1);
  const neighbor = up ? order[to - 1] : order[to + 1];
  const far = passed.length > 1 ? ` and ${counted(passed.length - 1, "other")}` : "";
  const end = passed.at(-1);
  const label = up
    ? `${nameOf(result, 40)} over ${nameOf(end, 40)}${far}`
    : `${nameOf(end, 40)}${far} over ${nameOf(result, 40)}`;
  const compared = evenly(passed, MOST_PASSED).map((other) => other.id);
  const stop = neighbor ? [neighbor.id] : [];
  const body = { doc: result.id, ahead_of: up ? compared : stop, behind: up ? stop : compared };
  return teach(result, end, label, "move", body);
}

function prefer(better, worse, result, other) {
  if (!better || !worse) return null;
  const label = `${nameOf(better, 40)} over ${nameOf(worse, 40)}`;
  return teach(result, other, label, "prefer", { better: better.id, worse: worse.id });
}

async function reject(row) {
  if (busy) return;
  const { result } = row;
  const order = state.answer.learned;
  const at = order.indexOf(result);
  const below = order.slice(at + 1, at + 1 + BELOW);
  const label = `${nameOf(result, 40)} is not relevant`;
  const key = dismiss(result.id);
  if (!below.length) {
    about = result.id;
    last = { actions: [], label, id: result.id, key };
    display(state.answer, true);
    tell(`You said: ${label}. Nothing is below it that could be better, so nothing was learned.`);
    return;
  }
  const body = { doc: result.id, below: below.map((other) => other.id) };
  if (await teach(result, below[0], label, "reject", body, key)) return;
  state.dismissed.delete(key);
  if (state.answer !== null) display(state.answer, true);
}

// What the buttons of a card and their keys do.
export function sayOf(row, kind) {
  const order = state.answer.learned;
  const at = rowsOf("learned").indexOf(row);
  if (kind === "better") return prefer(order[at], order[at - 1], order[at], order[at - 1]);
  if (kind === "worse") return prefer(order[at + 1], order[at], order[at], order[at + 1]);
  return reject(row);
}

export async function undo(actions, label, id = null, key = null) {
  if (busy) return null;
  busy = true;
  try {
    if (!actions.length) {
      last = null;
      state.dismissed.delete(key);
      if (state.answer !== null) display(state.answer, true);
      tell(`Taken back: ${label}.`);
      return null;
    }
    const taken = await send("undo", { actions });
    if (last?.actions.some((action) => actions.includes(action))) last = null;
    readmitBy(actions);
    for (const action of actions) state.taught.delete(action);
    about = id;
    const ranked = () => {
      const now = state.answer?.learned.find((result) => result.id === id)?.rank;
      return now === undefined ? "" : `It is at rank ${now} again.`;
    };
    await showLearned(taken.revision, `Taken back: ${label}.`, ranked);
    if (id !== null) flash(id);
    return null;
  } catch (problem) {
    tell(refusal("Nothing was taken back.", problem), "", true);
    return problem;
  } finally {
    busy = false;
  }
}

export function undoLast() {
  if (busy || last === null) return null;
  closeMessage();
  return undo(last.actions, last.label, last.id, last.key);
}

// -- the message ------------------------------------------------------------------------------------------------------

// What had the focus in the message must not lose it: it goes back to the result that the message is about.
export function closeMessage() {
  const focused = byId("toast").contains(document.activeElement);
  byId("toast").hidden = true;
  if (focused) (rowOf(about)?.querySelector(".title") ?? byId("q")).focus();
}

function tell(text, more = "", bad = false) {
  const undoable = !bad && last !== null && last.id === about;
  byId("toast-text").textContent = text.trim();
  byId("toast-undo").hidden = !undoable;
  byId("toast-what").textContent = undoable ? `: ${last.label}` : "";
  byId("toast-undo").setAttribute("aria-label", byId("toast-undo").textContent); // of which a phone shows one word
  byId("toast").classList.toggle("bad", bad);
  byId("toast").hidden = false;
  say([text.trim(), more].filter(Boolean).join(" "));
}

export function prepareTeaching(showAnswer, parametersOf) {
  display = showAnswer;
  asked = parametersOf;
  byId("toast-undo").addEventListener("click", undoLast);
  byId("toast-close").addEventListener("click", closeMessage);
  byId("learned").addEventListener("click", (event) => {
    const button = event.target.closest(".teach button");
    if (!button || button.classList.contains("grip") || button.getAttribute("aria-disabled") === "true") return;
    sayOf(button.closest("li"), button.classList[0]);
  });
}
