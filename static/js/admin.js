// Names for what django-unfold leaves without one.

// Its scrollers read theirs when they are made, which is later in the same event.
document.addEventListener("DOMContentLoaded", () => {
  document
    .getElementById("nav-sidebar-apps")
    ?.setAttribute("data-simplebar-aria-label", "Applications");
  for (const header of document.querySelectorAll("thead th")) {
    if (!header.textContent.trim()) header.append(hidden("Actions"));
  }
});

function hidden(text) {
  const span = document.createElement("span");
  span.className = "visually-hidden";
  span.textContent = text;
  return span;
}
