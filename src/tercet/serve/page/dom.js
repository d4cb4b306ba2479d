// Elements as values. Every text becomes a text node, so nothing that a document or a query says is read as HTML.

const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);
export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

function fill(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export const el = (kind, attributes, ...children) => fill(document.createElement(kind), attributes, children);
export const drawn = (kind, attributes, ...children) => fill(document.createElementNS(SVG, kind), attributes, children);
export const hiddenText = (text) => el("span", { class: "hidden" }, text);

// A screen reader says a text only when it differs from the one before, hence the pause.
let pending = 0;
export function say(text) {
  clearTimeout(pending);
  byId("say").textContent = "";
  pending = setTimeout(() => {
    byId("say").textContent = text;
  }, 60);
}

// Words of a query that are worth a mark. Those that hold sentences together in English are not.
const HOLDING = new Set(
  "a an and are as at be by for from how in is it of on or that the this to was what with".split(" "),
);
export function wordsOf(text) {
  return [...new Set(text.toLowerCase().match(/[\p{L}\p{N}][\p{L}\p{N}\p{M}_]*/gu) ?? [])].filter(
    (word) => !HOLDING.has(word),
  );
}

export const number = (value, digits = 3) => value.toFixed(digits).replace("-", "\u2212");
export const signed = (value) => (value < 0 ? number(value) : `+${number(value)}`);
export const counted = (n, one, many = `${one}s`) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
export const quoted = (text) => `\u201c${text}\u201d`;
export const shortened = (text, most = 60) => (text.length > most ? `${text.slice(0, most - 1).trimEnd()}…` : text);

export function openDialog(dialog) {
  if (!dialog.open) dialog.showModal();
}

export function prepareDialogs() {
  for (const dialog of document.querySelectorAll("dialog")) {
    for (const button of dialog.querySelectorAll(".close")) button.addEventListener("click", () => dialog.close());
    // A click beside the dialog lands on the dialog itself.
    dialog.addEventListener("click", (event) => {
      if (event.target === dialog) dialog.close();
    });
  }
}
