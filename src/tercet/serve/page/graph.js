// A word and its learned neighbours; choosing one walks to it.

import { ask } from "./api.js";
import { byId, calm, counted, drawn, el, number, openDialog, quoted, say } from "./dom.js";

const NEIGHBOURS = 10;
const trail = [];
let searchFor = () => {};
let opener = null;

export function prepareGraph(search) {
  searchFor = search;
  const dialog = byId("graph");
  byId("graph-search").addEventListener("click", () => {
    dialog.close();
    searchFor(trail.at(-1));
  });
  dialog.addEventListener("close", () => {
    if (opener?.isConnected) opener.focus();
  });
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "Backspace" && trail.length > 1) {
      event.preventDefault();
      goTo(trail.length - 2);
    }
  });
  addEventListener("resize", () => {
    if (!dialog.open || !last) return;
    // New nodes take the place of the old ones: the one that has the focus keeps it.
    const focused = nodesOf().indexOf(document.activeElement);
    draw(last.found, null);
    if (focused >= 0) choose(nodesOf(), focused);
  });
}

const nodesOf = () => [...byId("graph-body").querySelectorAll("[role=button]")];

export function openGraph(word) {
  opener = document.activeElement;
  trail.length = 0;
  byId("graph-body").replaceChildren();
  last = null;
  openDialog(byId("graph"));
  return walk(word, null);
}

function goTo(step) {
  trail.length = step + 1;
  return walk(trail.pop(), null);
}

let last = null;
let latest = 0;

async function walk(word, from) {
  latest += 1;
  const mine = latest;
  const body = byId("graph-body");
  trail.push(word);
  byId("graph-title").textContent = word;
  byId("graph-search").textContent = `Search ${quoted(word)}`;
  byId("trail").replaceChildren(
    ...trail
      .slice(0, -1)
      .flatMap((earlier, step) => [
        el("button", { type: "button", class: "quiet", onclick: () => goTo(step) }, el("bdi", null, earlier)),
        el("span", { "aria-hidden": "true" }, "›"),
      ]),
  );
  body.setAttribute("aria-busy", "true");
  try {
    const found = await ask("related", { word, k: NEIGHBOURS + 1 });
    if (mine !== latest) return;
    // A word counts for itself, most of the time more than any other; that was not learned.
    found.related = found.related.filter((other) => other.word !== found.known_as).slice(0, NEIGHBOURS);
    last = { found };
    draw(found, from);
    const first = body.querySelector("[tabindex='0']");
    (first ?? byId("graph-search")).focus();
    say(
      found.related.length
        ? `${word}: ${counted(found.related.length, "neighbour")}`
        : `${word} has no learned neighbours`,
    );
  } catch (problem) {
    if (mine !== latest) return;
    last = null;
    const text =
      problem.status === 404 || problem.status === 422
        ? `The model does not know ${quoted(word)}, or passes over it.`
        : problem.message;
    body.replaceChildren(el("p", { class: "empty", role: "alert" }, text));
    byId("graph-search").focus();
  } finally {
    if (mine === latest) body.removeAttribute("aria-busy");
  }
}

function pill(text, kind, weight = null) {
  const label = drawn(
    "text",
    { "text-anchor": "middle", dy: "0.34em" },
    drawn("tspan", null, text),
    weight === null ? null : drawn("tspan", { class: "weight", dx: "6" }, weight),
  );
  return drawn(
    "g",
    { class: `node ${kind}` },
    drawn("title", null, text),
    drawn("rect", { rx: 15, height: 30, y: -15 }),
    label,
  );
}

function fitPill(node, widest) {
  const label = node.querySelector("text");
  const word = label.querySelector("tspan");
  const whole = word.textContent;
  // Long words are cut so that neighbours stay apart; the whole word is in the label of the node.
  for (let most = whole.length; label.getComputedTextLength() > widest && most > 4; most -= 1)
    word.textContent = `${whole.slice(0, most - 1)}…`;
  const width = label.getComputedTextLength() + 24;
  const shape = node.querySelector("rect");
  shape.setAttribute("width", width);
  shape.setAttribute("x", -width / 2);
  return width;
}

function onEllipse(index, count, width, height) {
  const angle = (2 * Math.PI * index) / count - Math.PI / 2;
  return { x: width / 2 + Math.cos(angle) * (width / 2 - 100), y: height / 2 + Math.sin(angle) * (height / 2 - 24) };
}

// Clockwise too: down on the right, up on the left. Nearer to the edges than an ellipse, for narrow screens.
function inColumns(index, count, width, height, half) {
  const right = Math.ceil(count / 2);
  const onRight = index < right;
  const rows = onRight ? right : count - right;
  const step = onRight ? index : count - 1 - index;
  const bulge = rows < 2 ? 0 : Math.sin((Math.PI * step) / (rows - 1)); // the middle of a column is farther out
  const inset = half + 2 + 34 * (1 - bulge);
  return {
    x: onRight ? width - inset : inset,
    y: 26 + ((height - 52) * (rows < 2 ? 0.25 : step)) / Math.max(rows - 1, 1),
  };
}

function draw(found, from) {
  const body = byId("graph-body");
  const width = Math.max(260, body.clientWidth);
  const narrow = width < 520;
  const height = narrow ? 440 : 380;
  const { related } = found;
  if (!related.length) {
    body.replaceChildren(
      el("p", { class: "empty" }, `Nothing was learned that ties other words to ${quoted(found.word)}.`),
    );
    return;
  }
  const largest = Math.max(...related.map((other) => Math.abs(other.weight))) || 1;
  const svg = drawn("svg", {
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "group",
    "aria-label": `${found.word} and ${counted(related.length, "learned neighbour")}, the strongest first`,
  });
  body.replaceChildren(svg);
  const centre = { x: width / 2, y: height / 2 };
  const edges = drawn("g", { class: "edges" });
  svg.append(edges);
  const nodes = related.map((other, index) => {
    const node = pill(other.word, other.weight < 0 ? "bad" : "good", number(other.weight, largest < 0.1 ? 3 : 2));
    node.setAttribute("role", "button");
    node.setAttribute("tabindex", index === 0 ? "0" : "-1");
    node.setAttribute("aria-label", `${other.word}, weight ${number(other.weight)}`);
    svg.append(node);
    const half = fitPill(node, narrow ? 96 : 150) / 2;
    const at = narrow
      ? inColumns(index, related.length, width, height, half)
      : onEllipse(index, related.length, width, height);
    node.style.transform = `translate(${at.x}px, ${at.y}px)`;
    const strength = Math.abs(other.weight) / largest;
    const edge = drawn("line", {
      x1: centre.x,
      y1: centre.y,
      x2: at.x,
      y2: at.y,
      class: other.weight < 0 ? "bad" : "good",
      "stroke-width": 1 + 5 * strength,
    });
    edges.append(edge);
    node.addEventListener("click", () => walk(other.word, at));
    node.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Enter" || event.key === " ") {
        event.preventDefault();
        walk(other.word, at);
      } else if (step) {
        event.preventDefault();
        choose(nodes, (index + step + nodes.length) % nodes.length);
      } else if (event.key === "Home" || event.key === "End") {
        event.preventDefault();
        choose(nodes, event.key === "Home" ? 0 : nodes.length - 1);
      }
    });
    return node;
  });
  const middle = pill(found.word, "centre");
  middle.setAttribute("aria-hidden", "true"); // the title of the dialog says it
  svg.append(middle);
  fitPill(middle, narrow ? 80 : 150);
  const rest = `translate(${centre.x}px, ${centre.y}px)`;
  middle.style.transform = rest;
  if (from === null || calm()) return;
  const timing = { duration: 420, easing: "cubic-bezier(.2, .7, .2, 1)" };
  middle.animate([{ transform: `translate(${from.x}px, ${from.y}px)` }, { transform: rest }], timing);
  edges.animate([{ opacity: 0 }, { opacity: 0, offset: 0.4 }, { opacity: 1 }], timing);
  for (const node of nodes) {
    node.animate(
      [
        { transform: rest, opacity: 0 },
        { transform: node.style.transform, opacity: 1 },
      ],
      { ...timing, delay: 90, fill: "backwards" },
    );
  }
}

function choose(nodes, index) {
  nodes.forEach((node, other) => node.setAttribute("tabindex", other === index ? "0" : "-1"));
  nodes[index].focus();
}
