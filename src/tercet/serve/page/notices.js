// What is said of an answer above its lists, and instead of them where there is none.

import { byId, counted, el, quoted, say, shortened } from "./dom.js";
import { isCompared, isMixed, state } from "./state.js";

const ATTEMPTS = 3; // that a busy service is asked again by itself
let retry = 0;

const listed = (words) => words.map(quoted).join(", ");
const badge = (text, bad = false) => el("span", { class: bad ? "badge bad" : "badge", dir: "auto" }, text);

export function notice(title, text, ...actions) {
  byId("notice").replaceChildren(
    ...[el("h1", null, title), text && el("p", { dir: "auto" }, text), ...actions].filter(Boolean),
  );
}

// Why nothing was found. A word that nearly every document has is not looked for.
export function emptiness(answer) {
  const { unknown = [], stop_words: frequent = [] } = answer;
  const [are, they] = frequent.length > 1 ? ["are", "they are"] : ["is", "it is"];
  const skipped = frequent.length
    ? `${listed(frequent)} ${are} in so many documents that ${they} not searched for. `
    : "";
  const no = state.filters.length ? "With these filters, no" : "No";
  if (unknown.length)
    return `${skipped}${no} document has ${listed(unknown)}, nor a word that was learned near ${unknown.length === 1 ? "it" : "them"}.`;
  if (skipped) return `${skipped}Add a word that tells more.`;
  return `${no} document has these words, nor words learned near them.`;
}

// What learning did, how long it took, and which words were left out.
export function describe(answer) {
  const { unknown = [], stop_words: frequent = [] } = answer;
  const facts = [];
  if (!answer.compared) facts.push("Nothing is learned yet");
  if (isMixed(answer)) facts.push(counted(answer.learned.length, "result"));
  if (isCompared(answer)) {
    const moved = answer.learned.filter((result) => result.baseline_rank !== result.rank).length;
    facts.push(moved ? `Learning moved ${moved} of ${answer.learned.length}` : "Learning left the order as it was");
  }
  if (Number.isFinite(answer.took_ms))
    facts.push(`${answer.took_ms < 10 ? answer.took_ms.toFixed(1) : Math.round(answer.took_ms)} ms`);
  const line = [facts.join(" · ")];
  if (answer.exact === false) line.push(badge("approximate"));
  if (unknown.length) line.push(badge(`unknown ${unknown.length === 1 ? "word" : "words"}: ${listed(unknown)}`, true));
  if (frequent.length) line.push(badge(`in most documents, so not searched: ${listed(frequent)}`));
  byId("heading").textContent = `Results for ${quoted(shortened(answer.query, 80))}`;
  byId("facts").replaceChildren(...line);
}

export const stopRetrying = () => clearInterval(retry);

// Why there is no answer; `again(attempt)` asks once more.
export function failed(problem, attempt, again) {
  const button = el("button", { type: "button", onclick: () => again(0) }, "Try again");
  const waits = problem.status === 429 || problem.status === 503;
  if (waits && attempt < ATTEMPTS) {
    let seconds = Math.ceil(problem.retryAfter ?? 2 ** attempt);
    const clock = el("p", { class: "soft", "aria-live": "off" });
    const tick = () => {
      clock.textContent = `Trying again in ${counted(seconds, "second")}.`;
    };
    tick();
    retry = setInterval(() => {
      seconds -= 1;
      if (seconds <= 0) again(attempt + 1);
      else tick();
    }, 1000);
    notice(problem.status === 429 ? "A little too fast" : "The service is busy", problem.message, clock, button);
  } else if (problem.status === 0) {
    notice("The service is away", "It does not answer. What was learned is safe with it; try again when it runs.", button);
  } else if (problem.status === 401) {
    notice("A token is needed", "This service answers only with a token.", button);
  } else {
    notice(problem.title, problem.message, problem.status >= 500 || waits ? button : null);
  }
  say(byId("notice").querySelector("h1").textContent);
}
