// What somebody says of results becomes preferences, one after the other, and can be taken back as a whole.
//
// A card that is moved is better than those it passes. They are told nearest first, so that each step is small and the
// others keep their order; those that it is ahead of by then are left out. Where it went too far, the one that it was
// put next to is better than it, or worse, unless that would throw it back. One preference over the last one that it
// passed would move both halfway, each past others that nobody compared them with.

import { ask, send } from "./api.js";
import { byId, counted, say } from "./dom.js";
import { nameOf } from "./names.js";
import { flash, rowOf, rowsOf, sayMoves, setWorking } from "./results.js";
import { dismiss, isMixed, readmitBy, state } from "./state.js";

const MOST_PASSED = 9; // preferences of one move; more of those that were passed are skipped evenly
const BELOW = 3; // results that are better than one that is not relevant
const PATIENCE = 10_000; // milliseconds that we wait for a change to be applied
const STILL_LEARNING = " What was taught after it is being learned again, so ranks may still change a little.";

let display = () => []; // shows an answer and returns what moved
let asked = () => ({});
let last = null; // what Undo takes back: { entries, label, id, key }, the last where it was called not relevant
let busy = false;
let about = null; // the document that the message is about

export const isBusy = () => busy;

const pause = (milliseconds) =>
  new Promise((resolve) => {
    setTimeout(resolve, milliseconds);
  });
const numberOf = (version) => Number.parseInt(version.slice(1), 10); // "v12" and "v12~" have all entries up to the 12th

// Asks until the answer has an entry in it, and shows it. Returns what moved, or null when it took too long or other
// results were asked for meanwhile. None of these lists is one that somebody came to look at, so they are not logged.
async function awaitEntry(entry) {
  const { query } = state.answer;
  const wanted = { ...asked(query), log: false };
  const isWanted = () =>
    state.answer?.query === query && JSON.stringify({ ...asked(query), log: false }) === JSON.stringify(wanted);
  const until = performance.now() + PATIENCE;
  for (let wait = 40; ; wait = Math.min(wait * 1.6, 600)) {
    const answer = await ask("search", wanted);
    if (!isWanted()) return null;
    if (numberOf(answer.version) >= entry) return display(answer, true);
    if (performance.now() > until) return null;
    await pause(wait);
  }
}

// The change is kept already: what fails from here on is only that it can be seen.
async function showLearned(entry, said, outcome) {
  let moves = null;
  try {
    if (state.answer !== null) moves = await awaitEntry(entry);
  } catch (problem) {
    tell(`${said} It is kept, but the list could not be asked for again. ${problem.message}`);
    return;
  }
  const soon = state.answer?.version.endsWith("~") ? STILL_LEARNING : "";
  const outcomes = moves === null ? "It is kept, and counts soon." : outcome(moves) + soon;
  tell(`${said} ${outcomes}`, moves ? sayMoves(moves) : "");
}

function refusal(what, problem) {
  const wait = problem.retryAfter ? ` Try again in ${counted(Math.ceil(problem.retryAfter), "second")}.` : "";
  return `${what} ${problem.message}${wait}`;
}

// Sends the preferences that `steps` makes; whether any was taken. `label` is what was said of a result and another one,
// as in "A over B"; `key` that by which it is called not relevant, if it is.
async function teach(result, other, label, steps, key = null) {
  if (busy) return false;
  const entries = [];
  const effects = [];
  let newest = 0;
  const { query } = state.answer;
  busy = true;
  about = result.id;
  setWorking(result.id);
  // Gives the rank of the result after it, as far as the service could tell; null where it is below those it looks at.
  const prefer = async (better, worse, rank) => {
    const accepted = await send("prefer", { query, better: better.id, worse: worse.id });
    newest = accepted.entry;
    entries.push(newest);
    if (!accepted.effect) return rank;
    effects.push(accepted.effect);
    return accepted.effect.ranks.find((change) => change.id === result.id)?.after ?? null;
  };
  const takeBack = async () => {
    newest = (await send("undo", { entries: entries.slice(-1) })).entry;
    entries.pop();
    effects.pop();
  };
  try {
    let problem = null;
    try {
      await steps(prefer, takeBack);
    } catch (failure) {
      problem = failure;
    }
    if (!entries.length) {
      if (problem !== null) {
        display(state.answer, true); // what was dragged goes back
        tell(refusal("It was not taken.", problem), "", true);
      }
      return false;
    }
    last = { entries, label, id: result.id, key };
    if (key !== null) state.dismissed.set(key, entries);
    const cut = problem === null ? "" : ` ${refusal("The rest was not taken.", problem)}`;
    await showLearned(newest, `You said: ${label}.`, () => outcomeOf(result, other, effects) + cut);
    flash(result.id);
    return true;
  } finally {
    busy = false;
    setWorking(null);
  }
}

// What it did: the sentence of the service, where one preference did it in the list shown or did nothing.
function outcomeOf(result, other, effects) {
  const odd = effects.find((effect) => effect.reason !== "learned" && effect.reason !== "ahead");
  if (odd) return odd.said;
  if (effects.length === 1 && isWhole()) return effects[0].said;
  const moves = [result, other].map((before) => {
    const now = state.answer.learned.find((after) => after.id === before.id)?.rank;
    if (now === before.rank) return null;
    return `${nameOf(before, 40)} went from rank ${before.rank} to ${now === undefined ? "below those shown" : now}`;
  });
  const said = moves.filter(Boolean).join(", ");
  if (said) return `${said}.`;
  return effects.length === 1 && effects[0].interleaved ? effects[0].said : "The order is the same for now.";
}

// Whether ranks in the list shown are those of the service.
const isWhole = () => !isMixed(state.answer) && !state.filters.length;

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
  const others = order.filter((other) => other !== result);
  const [above, below] = [others[to - 1], others[to]];
  const far = passed.length > 1 ? ` and ${counted(passed.length - 1, "other")}` : "";
  const end = passed.at(-1);
  const label = up
    ? `${nameOf(result, 40)} over ${nameOf(end, 40)}${far}`
    : `${nameOf(end, 40)}${far} over ${nameOf(result, 40)}`;
  return teach(result, end, label, async (prefer, takeBack) => {
    let rank = result.rank;
    for (const other of evenly(passed, MOST_PASSED)) {
      if (isWhole() && (rank === null ? !up : up ? rank <= other.rank : rank >= other.rank)) continue;
      rank = await (up ? prefer(result, other, rank) : prefer(other, result, rank));
    }
    const goal = order[to].rank;
    const neighbour = up ? above : below;
    if (!isWhole() || !neighbour || rank === null || (up ? rank >= goal : rank <= goal)) return;
    rank = await (up ? prefer(neighbour, result, rank) : prefer(result, neighbour, rank));
    if (rank === null ? up : up ? rank > goal : rank < goal) await takeBack();
  });
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
    last = { entries: [], label, id: result.id, key };
    display(state.answer, true);
    tell(`You said: ${label}. Nothing is below it that could be better, so nothing was learned.`);
    return;
  }
  const taken = await teach(result, below[0], label, async (prefer) => {
    let { rank } = result;
    for (const other of below)
      if (!isWhole() || (rank !== null && rank < other.rank)) rank = await prefer(other, result, rank);
  }, key);
  if (!taken) {
    state.dismissed.delete(key);
    if (state.answer !== null) display(state.answer, true);
  }
}

// What the buttons of a card and their keys do.
export function sayOf(row, kind) {
  const at = rowsOf("learned").indexOf(row);
  if (kind === "better") return place(at, at - 1);
  if (kind === "worse") return place(at, at + 1);
  return reject(row);
}

export async function undo(entries, label, id = null, key = null) {
  if (busy) return null;
  busy = true;
  try {
    if (!entries.length) {
      last = null;
      state.dismissed.delete(key);
      if (state.answer !== null) display(state.answer, true);
      tell(`Taken back: ${label}.`);
      return null;
    }
    const taken = await send("undo", { entries });
    if (last?.entries.some((entry) => entries.includes(entry))) last = null;
    readmitBy(entries);
    about = id;
    const ranked = () => {
      const now = state.answer?.learned.find((result) => result.id === id)?.rank;
      return now === undefined ? "" : `It is at rank ${now} again.`;
    };
    await showLearned(taken.entry, `Taken back: ${label}.`, ranked);
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
  return undo(last.entries, last.label, last.id, last.key);
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
