// Filter bar: one select per facet of the answer.

import { byId, el, shortened } from "./dom.js";
import { state } from "./state.js";

let choose = () => {};

const MOST = 40; // characters of a value

function shownValue(value) {
  const [, low, high] = /^(-?[\d.eE+-]*?)\.\.(-?[\d.eE+-]*)$/.exec(value) ?? [];
  if (low && high) return `${low} to ${high}`;
  if (high) return `up to ${high}`;
  return low ? `from ${low}` : shortened(value, MOST);
}

function choice(facet, number) {
  const active = state.answer.where?.[facet.column] ?? [];
  const id = `filter-${number}`;
  const options = facet.values.map(({ value, count }) =>
    el("option", { value, selected: active.length === 1 && active[0] === value }, `${shownValue(value)} (${count})`),
  );
  const isListed = active.length === 1 && facet.values.some(({ value }) => value === active[0]);
  // Values of the address that are no choice, such as several at once, are shown as written.
  if (active.length && !isListed)
    options.unshift(el("option", { value: "", selected: true, disabled: true }, active.map(shownValue).join(" or ")));
  const select = el("select", { id, "data-column": facet.column }, el("option", { value: "", "data-any": true }, "any"), options);
  select.addEventListener("change", () => {
    const rest = state.filters.filter((text) => !active.some((value) => text === `${facet.column}:${value}`));
    const isAny = select.selectedOptions[0]?.dataset.any !== undefined;
    choose(isAny ? rest : [...rest, `${facet.column}:${select.value}`]);
  });
  return el(
    "span",
    { class: active.length ? "filter active" : "filter" },
    el("label", { for: id, dir: "auto" }, shortened(facet.column, 24)),
    select,
  );
}

export function renderFilters() {
  const facets = state.answer.facets ?? [];
  const counted = Math.max(0, ...facets.map((facet) => facet.counted));
  const parts = facets.map(choice);
  if (state.filters.length)
    parts.push(el("button", { type: "button", class: "quiet", onclick: () => choose([]) }, "Clear"));
  byId("filters").hidden = !parts.length;
  byId("filters").title = `Numbers are of the first ${counted} results`;
  byId("filters").replaceChildren(...parts);
}

// The chosen select keeps the focus after the bar is drawn again.
export function prepareFilters(onChoose) {
  choose = async (filters) => {
    const { column } = document.activeElement?.dataset ?? {};
    await onChoose(filters);
    const selects = [...byId("filters").querySelectorAll("select")];
    (selects.find((select) => select.dataset.column === column) ?? selects[0] ?? byId("results")).focus();
  };
}
