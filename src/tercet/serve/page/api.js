// Requests to the service: problems (RFC 9457) as errors, and a token when it asks for one.

import { byId, openDialog } from "./dom.js";

const READ = "tercet-token";
const WRITE = "tercet-write-token";

const sentence = (text) => `${text.charAt(0).toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;

export class Problem extends Error {
  constructor(status, title, detail, retryAfter) {
    super(sentence(detail || title));
    this.status = status; // 0: no answer at all
    this.title = title;
    this.retryAfter = retryAfter;
  }
}

function askForToken(why) {
  const dialog = byId("token");
  const field = byId("token-value");
  byId("token-why").textContent = why;
  field.value = "";
  openDialog(dialog);
  field.focus();
  return new Promise((resolve) => {
    const submit = () => {
      dialog.returnValue = "given";
    };
    byId("token-form").addEventListener("submit", submit, { once: true });
    dialog.addEventListener(
      "close",
      () => {
        byId("token-form").removeEventListener("submit", submit);
        const given = dialog.returnValue === "given";
        dialog.returnValue = "";
        resolve(given ? field.value.trim() : null);
      },
      { once: true },
    );
  });
}

let asking = null; // several requests may be refused at once: they share one question

async function answer(path, options, writes) {
  const key = writes ? WRITE : READ;
  const token = sessionStorage.getItem(key) ?? sessionStorage.getItem(READ) ?? sessionStorage.getItem(WRITE);
  const headers = { Accept: "application/json", ...options.headers };
  if (token) headers.Authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(path, { ...options, headers, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The service is away", "The service does not answer.", null);
  }
  let body = null;
  try {
    body = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (response.ok)
      throw new Problem(response.status, "Unreadable answer", "The service sent something else than JSON.", null);
  }
  // A token that may only read is refused by 403, as are pages of other sites, which no token helps.
  if (response.status === 401 || (response.status === 403 && String(body?.type).endsWith(":read-only"))) {
    const why = token
      ? `The token was not accepted${writes ? " for changing what is learned" : ""}.`
      : writes
        ? "A token is needed to change what is learned."
        : "A token is needed to search here.";
    asking ??= askForToken(why).finally(() => {
      asking = null;
    });
    const given = await asking;
    if (given) {
      sessionStorage.setItem(key, given);
      return answer(path, options, writes);
    }
  }
  if (!response.ok) {
    const seconds = Number.parseFloat(response.headers.get("Retry-After") ?? "");
    throw new Problem(
      response.status,
      String(body?.title ?? `Error ${response.status}`),
      String(body?.detail ?? ""),
      Number.isFinite(seconds) ? Math.max(1, seconds) : null,
    );
  }
  return body;
}

// What is nice to know and asks for no token: null where it cannot be had.
export async function glance(path) {
  const token = sessionStorage.getItem(READ) ?? sessionStorage.getItem(WRITE);
  try {
    const response = await fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {} });
    return response.ok ? await response.json() : null;
  } catch {
    return null;
  }
}

const noted = new Map(); // documents by list

// A click, for the impressions log: once for a document of a list. Nobody waits for it, and nothing is said where it is
// not taken.
export function noteClick(queryId, doc) {
  if (!queryId) return;
  const docs = noted.get(queryId) ?? new Set();
  if (docs.has(doc)) return;
  noted.set(queryId, docs.add(doc));
  const token = sessionStorage.getItem(READ) ?? sessionStorage.getItem(WRITE);
  const headers = { "Content-Type": "application/json", ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const body = JSON.stringify({ query_id: queryId, doc });
  fetch("events", { method: "POST", headers, body, keepalive: true }).catch(() => {});
}

// The clicks on a list, for one that shows more of the same: without them it would seem that they were passed over.
export function noteAgain(before, now) {
  if (before !== now) for (const doc of noted.get(before) ?? []) noteClick(now, doc);
}

// A parameter with several values is an array of them.
export function ask(path, parameters = {}, signal = undefined) {
  const pairs = Object.entries(parameters).flatMap(([name, value]) => [value].flat().map((one) => [name, one]));
  const query = new URLSearchParams(pairs).toString();
  return answer(query ? `${path}?${query}` : path, { signal }, false);
}

export function send(path, body) {
  return answer(
    path,
    { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) },
    true,
  );
}
