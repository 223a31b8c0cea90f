// What can be scrolled can be reached by the keyboard; what fits is no stop on the way.

const SCROLLERS = ".table-wrap";
let names = 0;

const watcher = new ResizeObserver((entries) => {
  for (const { target } of entries) settle(target.closest(SCROLLERS));
});

function settle(scroller) {
  // Of heights a pixel may be lost in rounding.
  const fits =
    scroller.scrollWidth <= scroller.clientWidth &&
    scroller.scrollHeight <= scroller.clientHeight + 1;
  if (fits) {
    for (const name of ["tabindex", "role", "aria-labelledby"]) scroller.removeAttribute(name);
    return;
  }
  scroller.tabIndex = 0;
  const name = nameOf(scroller);
  if (!name) return;
  name.id ||= `scroller-${++names}`;
  scroller.setAttribute("role", "group");
  scroller.setAttribute("aria-labelledby", name.id);
}

/** The element that says what is in it: its caption, or the heading of its part of the page. */
function nameOf(scroller) {
  const part = scroller.closest("section, article, main");
  return scroller.querySelector("caption") ?? part?.querySelector("h1, h2, h3");
}

/** Looks after every scroller in `root`; those that htmx brings come by themselves. */
export function watchScrollers(root) {
  for (const scroller of root.querySelectorAll(SCROLLERS)) {
    watcher.observe(scroller);
    // What is in it may grow while it stays as it is.
    for (const content of scroller.children) watcher.observe(content);
  }
}

document.addEventListener("htmx:load", (event) => watchScrollers(event.target.parentElement));
