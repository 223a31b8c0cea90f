// Behaviour shared by all pages: menus close when left, dialogs open from buttons.

import { watchScrollers } from "./scrolling.js";

watchScrollers(document);

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    if (!menu.contains(event.target)) menu.open = false;
  }
  const opener = event.target.closest("[data-dialog]");
  if (opener) {
    const dialog = document.getElementById(opener.dataset.dialog);
    if (dialog) openDialog(dialog, opener);
  }
  const closer = event.target.closest("[data-dialog-close]");
  if (closer) closer.closest("dialog")?.close();
  // A click on the backdrop is a click on the dialog element itself.
  if (event.target.matches("dialog[open]")) event.target.close();
});

document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false;
    menu.querySelector("summary")?.focus();
  }
});

// Typed confirmation: the button works once the name has been typed as it stands.
document.addEventListener("input", (event) => {
  const field = event.target.closest("[data-confirm-text]");
  if (!field) return;
  const button = field.form?.querySelector("[data-confirm-button]");
  if (button) button.disabled = field.value.trim() !== field.dataset.confirmText;
});

// Another language leads back to this page: its address may have changed since it was loaded.
document.addEventListener("submit", (event) => {
  const { next } = event.target.matches(".languages") ? event.target.elements : {};
  if (next) next.value = location.pathname + location.search;
});

// One dialog serves a whole list: the opener says which form action and name it is about.
function openDialog(dialog, opener) {
  const form = dialog.querySelector("form[data-dialog-form]");
  if (form && opener.dataset.action) form.action = opener.dataset.action;
  for (const slot of dialog.querySelectorAll("[data-dialog-name]")) {
    slot.textContent = opener.dataset.name ?? "";
  }
  for (const field of dialog.querySelectorAll("[data-dialog-value]")) {
    field.value = opener.dataset.name ?? "";
  }
  dialog.showModal();
}

// A part of a page that was answered by the sign-in page means that the person is signed out.
document.addEventListener("htmx:beforeSwap", (event) => {
  const { xhr, pathInfo } = event.detail;
  if (new URL(xhr.responseURL).pathname !== new URL(pathInfo.finalRequestPath, location).pathname) {
    event.preventDefault();
    location.reload();
  }
});
