// What documents are called: by their titles, and by their ids where others shown are called the same.

import { quoted, shortened } from "./dom.js";
import { state } from "./state.js";

const titles = new Map(); // of all documents seen, for the history

export const titleOf = (result) => (result.title ?? "").trim() || result.id;
export const knownTitle = (id) => titles.get(id) ?? id;
export const rememberTitle = (id, title) => titles.set(id, (title ?? "").trim() || id);

export const hasTwin = (result) =>
  [...(state.answer?.learned ?? []), ...(state.answer?.baseline ?? [])].some(
    (other) => other.id !== result.id && titleOf(other) === titleOf(result),
  );

// A result in a sentence.
export const nameOf = (result, most = 60) =>
  quoted(shortened(titleOf(result), most)) + (hasTwin(result) ? ` (${shortened(result.id, most)})` : "");
