// A result as a card: what it is, what learning did to it, and what can be said of it.

import { noteClick } from "./api.js";
import { el, hiddenText, number, shortened, wordsOf } from "./dom.js";
import { hasTwin, nameOf, titleOf } from "./names.js";
import { isCompared, isDismissed, state } from "./state.js";

let serial = 0;

// What can be said of a result. The sign is all that wide screens with two lists show.
const SAYINGS = [
  { kind: "better", sign: "↑", text: "Better", key: "B" },
  { kind: "worse", sign: "↓", text: "Worse", key: "W" },
  { kind: "away", sign: "×", text: "Not relevant", key: "N" },
  { kind: "grip", sign: "⠿", text: "Move", key: "M" },
];

function labelOf(kind, result, above, below) {
  const name = nameOf(result);
  return {
    better: above && `Better: ${name} over ${nameOf(above)}`,
    worse: below && `Worse: ${nameOf(below)} over ${name}`,
    away: !isDismissed(result.id) && `Not relevant: ${name}`,
    grip: `Move ${name} to where it belongs`,
  }[kind];
}

// Stored fields of a document: a price, a date; addresses can be followed.
function storedFieldParts(system, result) {
  return Object.entries(result.stored_fields ?? {}).map(([name, value]) => {
    const text = String(value);
    const shownValue = /^https?:\/\/\S+$/i.test(text)
      ? el(
          "a",
          {
            href: text,
            target: "_blank",
            rel: "noopener noreferrer",
            // The log has the learned list alone: a rank of it says nothing of where this was clicked.
            onclick: () => system === "learned" && noteClick(state.answer?.query_id, result.id),
          },
          shortened(text.replace(/^https?:\/\/(www\.)?|\/$/gi, ""), 32),
        )
      : el("bdi", null, shortened(text, 80));
    return el("span", { class: "value" }, el("span", { class: "soft" }, `${name} `), shownValue);
  });
}

// Words of the query in a snippet; the service's analyzer decides what matches, this only helps the eye.
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
function movement(system, result) {
  if (!isCompared(state.answer)) return { way: "same", text: "", said: "" };
  const [from, to] = system === "learned" ? [result.baseline_rank, result.rank] : [result.rank, result.learned_rank];
  if (from === null) return { way: "new", text: "new", said: `not found by ${state.answer.baseline_name}` };
  if (to === null) return { way: "gone", text: "–", said: "not among the learned results" };
  if (from === to) return { way: "same", text: "=", said: "not moved by learning" };
  const way = to < from ? "up" : "down";
  const text = `${to < from ? "▲" : "▼"}\u2009${Math.abs(from - to)}`;
  return { way, text, said: `moved ${way} by ${Math.abs(from - to)}, from ${from} to ${to}` };
}

function makeTeaching() {
  const buttons = SAYINGS.map(({ kind, sign, text, key }) =>
    el(
      "button",
      { type: "button", class: kind, title: `${text} (${key})`, "aria-keyshortcuts": key },
      el("span", { class: "sign", "aria-hidden": "true" }, sign),
      el("span", { class: "sign-text" }, text),
    ),
  );
  return el("div", { class: "teach" }, ...buttons);
}

export function makeCard(system) {
  serial += 1;
  const panel = el("div", { class: "reasons", id: `reasons-${serial}`, hidden: true });
  const title = el("button", {
    type: "button",
    class: "title",
    dir: "auto",
    "aria-expanded": "false",
    "aria-controls": panel.id,
  });
  const head = el(
    "div",
    { class: "head" },
    el("span", { class: "rank" }),
    el(
      "div",
      { class: "what" },
      el("div", { class: "line" }, el("h3", null, title), el("bdi", { class: "id" }), el("span", { class: "tag" })),
      el("p", { class: "snippet", dir: "auto" }),
      el("p", { class: "stored_fields", dir: "auto" }),
    ),
    el("div", { class: "side" }, el("span", { class: "moved" }), el("span", { class: "score" })),
    system === "learned" ? makeTeaching() : null,
  );
  return el("li", null, head, panel);
}

// `above` and `below` are the results next to it, or null.
export function fillCard(card, system, result, above, below) {
  const at = movement(system, result);
  const part = (name) => card.querySelector(`.${name}`);
  card.dataset.id = result.id;
  card.dataset.way = at.way;
  card.result = result;
  card.classList.toggle("dismissed", isDismissed(result.id));
  part("rank").textContent = String(result.rank);
  part("title").textContent = titleOf(result);
  part("id").textContent = result.id === titleOf(result) ? "" : result.id;
  part("line").classList.toggle("twin", hasTwin(result));
  part("tag").textContent = isDismissed(result.id) ? "not relevant" : "";
  part("snippet").replaceChildren(...marked(result.snippet ?? "", state.answer.query));
  const values = storedFieldParts(system, result);
  part("stored_fields").hidden = !values.length;
  part("stored_fields").replaceChildren(...values);
  part("moved").className = `moved ${at.way}`;
  part("moved").title = at.said;
  part("moved").replaceChildren(el("span", { "aria-hidden": "true" }, at.text), hiddenText(at.said));
  part("score").replaceChildren(hiddenText("score "), number(result.score));
  for (const button of card.querySelectorAll(".teach button")) {
    const label = labelOf(button.classList[0], result, above, below);
    button.hidden = !label;
    if (label) button.setAttribute("aria-label", label);
  }
}
