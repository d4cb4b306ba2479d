// What the page shows now, in one place, so that no two modules disagree.

export const PAGE_SIZE = 10; // results of each list, and how many more are shown at a time

export const state = {
  answer: null, // the last one of the service
  size: PAGE_SIZE,
  all: false, // whether those below the last match are shown, too
  filters: [], // texts "column:value"
  dismissed: new Map(), // what was called not relevant here, by query and document, and the actions that say so
  taught: new Map(), // by action, the pairs of words that it changed
};

const keyOf = (id) => `${state.answer?.query}\n${id}`;
export const isDismissed = (id) => state.dismissed.has(keyOf(id));

// Returns the key by which it is told of and taken back: by then another query may be shown.
export function dismiss(id) {
  const key = keyOf(id);
  state.dismissed.set(key, []);
  return key;
}

// What was called not relevant by any of these actions no longer is.
export function readmitBy(actions) {
  for (const [key, own] of state.dismissed) if (own.some((action) => actions.includes(action))) state.dismissed.delete(key);
}

// Where two models share a list, it has no order of scores, and nothing is told of whose a result is.
export const isMixed = (answer) => answer.interleaved === true;

// Not when nothing is learned yet.
export const isCompared = (answer) => answer.compared && !isMixed(answer);
