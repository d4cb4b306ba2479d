// Why a result has its score: one bar for each pair of words, and their sum.

import { ask } from "./api.js";
import { counted, el, hiddenText, number, quoted, signed } from "./dom.js";
import { state } from "./state.js";

const SHOWN = 8; // pairs before "show all"
const ANY_QUERY = "any query"; // the word of all queries, by which numbers of documents count

const word = (text) => el("bdi", null, text);

export const pairName = (pair) => `${pair.query_word} → ${pair.doc_word}`;

// Whether an action on this page changed what the pair adds.
const isTaught = (pair) => [...state.taught.values()].some((names) => names.has(pairName(pair)));

function words(pair) {
  if (pair.query_word === pair.doc_word) return [word(pair.query_word)];
  // A match in a field, or a number of the document: what the service calls them says it all.
  if (pair.query_word === ANY_QUERY || pair.doc_word.endsWith(`: ${pair.query_word}`)) {
    return [el("bdi", null, pair.doc_word)];
  }
  return [
    word(pair.query_word),
    el("span", { class: "to", "aria-hidden": "true" }, " → "),
    hiddenText(" matches "),
    word(pair.doc_word),
  ];
}

// A past query that people chose this document for: what memory adds.
function asked(one) {
  const times = one.times ? `, chosen ${one.times === 1 ? "once" : `${one.times.toLocaleString("en")} times`}` : "";
  const similarity = one.similarity.toFixed(2).replace(/^0/, "");
  return ["asked before: ", el("bdi", null, quoted(one.query)), el("span", { class: "soft" }, ` (similarity ${similarity}${times})`)];
}

function bar(value, low, high) {
  const span = high - low || 1;
  const track = el("div", { class: "track" });
  const zero = el("i", { class: "zero" });
  zero.style.left = `${(-low / span) * 100}%`;
  const fill = el("i", { class: value < 0 ? "fill bad" : "fill good" });
  fill.style.left = `${((Math.min(0, value) - low) / span) * 100}%`;
  fill.style.width = `${(Math.abs(value) / span) * 100}%`;
  track.append(fill, zero);
  return track;
}

function row(label, value, low, high, kind) {
  return el(
    "tr",
    { class: kind ?? null },
    el("th", { scope: "row" }, label),
    el("td", { class: "bar", "aria-hidden": "true" }, bar(value, low, high)),
    el("td", { class: "number" }, signed(value)),
  );
}

function table(found, all, showAll, caption) {
  const past = (found.past ?? []).map((one) => ({ ...one, label: asked(one) }));
  const size = (reason) => Math.abs(reason.contribution);
  const ordered = [...past, ...found.pairs].sort((a, b) => size(b) - size(a));
  const shown = all ? ordered : ordered.slice(0, SHOWN);
  const folded = ordered.slice(shown.length);
  const rest = found.rest ?? { count: 0, contribution: 0 };
  const restCount = rest.count + folded.length;
  const restValue = folded.reduce((sum, pair) => sum + pair.contribution, rest.contribution);
  const values = [...shown.map((pair) => pair.contribution), restValue, 0];
  const low = Math.min(...values);
  const high = Math.max(...values);
  const rows = shown.map((pair) => {
    const taught = !pair.label && isTaught(pair);
    const label = taught ? [...words(pair), el("span", { class: "soft" }, " learned just now")] : words(pair);
    return row(pair.label ?? label, pair.contribution, low, high, taught ? "taught" : null);
  });
  if (restCount) {
    const label = counted(restCount, "more pair");
    rows.push(
      row(
        folded.length ? el("button", { type: "button", class: "word", onclick: showAll }, label) : label,
        restValue,
        low,
        high,
        "rest",
      ),
    );
  }
  const sum = ordered.reduce((total, pair) => total + pair.contribution, rest.contribution);
  const foot = el(
    "tr",
    { class: "sum" },
    el(
      "th",
      { scope: "row", colspan: "2" },
      "Sum of ",
      past.length
        ? counted(ordered.length + rest.count, "reason")
        : counted(ordered.length + rest.count, "pair of words", "pairs of words"),
    ),
    el("td", { class: "number" }, number(sum)),
  );
  const head = el("tr", null, ...["Words", "Bar", "Contribution"].map((name) => el("th", { scope: "col" }, name)));
  return el(
    "table",
    { class: "pairs" },
    el("caption", null, caption),
    el("thead", { class: "hidden" }, head),
    el("tbody", null, rows),
    el("tfoot", null, foot),
  );
}

async function showDocument(id, place, button) {
  const open = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!open));
  if (open) {
    place.replaceChildren();
    return;
  }
  try {
    const found = await ask("documents", { id }); // not in the path, where two dots would be lost
    place.replaceChildren(
      el(
        "div",
        { class: "text", dir: "auto", tabindex: "0", role: "region", "aria-label": "Text of the document" },
        found.text,
      ),
    );
  } catch (problem) {
    place.replaceChildren(el("p", { class: "bad", role: "alert" }, problem.message));
  }
}

// `versus` is the result above, or null for the first.
export function fillReasons(panel, { query, system, result, versus }) {
  let all = false;
  let against = false;
  const body = el("div", null, el("p", { class: "soft" }, "Looking for the reasons…"));
  const place = el("div");
  const choices =
    versus === null
      ? null
      : el(
          "div",
          { class: "choices", role: "group", "aria-label": "Reasons for" },
          ...[
            ["Its score", false],
            ["Against the one above", true],
          ].map(([name, value]) =>
            el(
              "button",
              {
                type: "button",
                class: "quiet",
                "aria-pressed": String(value === against),
                onclick: (event) => {
                  against = value;
                  for (const other of event.target.parentNode.children)
                    other.setAttribute("aria-pressed", String(other === event.target));
                  draw();
                },
              },
              name,
            ),
          ),
        );
  const read = el("button", { type: "button", class: "quiet", "aria-expanded": "false" }, "Read the document");
  read.addEventListener("click", () => showDocument(result.id, place, read));
  const parts = [choices, body, el("p", { class: "about" }, read), place].filter(Boolean);
  let latest = 0;

  async function draw() {
    latest += 1;
    const mine = latest;
    const parameters = { q: query, doc: result.id, system };
    if (against) parameters.versus = versus;
    panel.setAttribute("aria-busy", "true");
    try {
      const found = await ask("explain", parameters);
      if (mine !== latest) return;
      const render = () => {
        const caption = against
          ? `Its lead over the one above: ${signed(found.score)}`
          : `Why its score is ${number(found.score)}`;
        const nothing = found.pairs.length + (found.past ?? []).length
          ? null
          : el("p", { class: "soft" }, "No pair of words speaks for or against it.");
        body.replaceChildren(
          ...[
            table(
              found,
              all,
              () => {
                all = true;
                render();
                body.querySelectorAll("tbody tr")[SHOWN]?.querySelector("button").focus(); // the button is gone
              },
              caption,
            ),
            nothing,
          ].filter(Boolean),
        );
      };
      render();
    } catch (problem) {
      if (mine !== latest) return;
      const again = el("button", { type: "button", class: "quiet", onclick: draw }, "Try again");
      body.replaceChildren(el("p", { class: "bad", role: "alert" }, problem.message, " ", again));
    } finally {
      if (mine === latest) panel.removeAttribute("aria-busy");
    }
  }
  // Reasons of an earlier version stay until those of the new one are there.
  const again = panel.childElementCount > 0;
  const drawn = draw();
  if (!again) panel.replaceChildren(...parts);
  if (!again) return drawn;
  return drawn.then(() => {
    const focused = panel.contains(document.activeElement);
    panel.replaceChildren(...parts);
    if (focused) panel.closest("li").querySelector(".title").focus({ preventScroll: true });
  });
}
