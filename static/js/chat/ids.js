// Ids made here, and addresses of what the site calls by id.

export const ANY_ID = "00000000-0000-0000-0000-000000000000"; // stands in addresses of templates

/** A random UUID. crypto.randomUUID exists on secure origins only; a site tried on a LAN is none. */
export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/** `addresses(page).thread(id)`: the address in `data-thread-url` with the id filled in. */
export function addresses(page) {
  const of = (name) => (id) => page.dataset[name].replace(ANY_ID, id);
  return {
    answer: of("answerUrl"),
    branch: of("branchUrl"),
    citation: of("citationUrl"),
    conversation: of("conversationUrl"),
    thread: of("threadUrl"),
  };
}

/** A part of a page as an element to look into, or null where it can't be had now. */
export async function fetchPart(url, options = {}) {
  const headers = { "HX-Request": "true", ...options.headers };
  // A redirect leads to the sign-in page.
  const response = await fetch(url, { redirect: "error", ...options, headers }).catch(() => null);
  if (!response?.ok) return null;
  const template = document.createElement("template");
  template.innerHTML = await response.text();
  return template.content;
}

/** A copy of the first element of a `<template>`. */
export function copyOf(templateId) {
  return document.getElementById(templateId).content.firstElementChild.cloneNode(true);
}
