// What one opens in an answer: its sources, its details, its form for feedback.

/** A citation opens in the panel; with a modifier key, where the browser opens links. */
export function openCitations(sources) {
  document.addEventListener("click", (event) => {
    const citation = event.target.closest("a[data-citation]");
    if (!citation || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    sources.showCitation(citation, citation.closest(".answer"));
  });
}

/** Parts that htmx fetches open below what is seen: they are brought in, and told. */
export function showFetchedParts(announcer) {
  document.addEventListener("htmx:afterSwap", (event) => {
    event.target.closest(".answer-details")?.scrollIntoView({ block: "nearest" });
  });
  // The form that answers replaces the one that was sent.
  document.addEventListener("htmx:afterSettle", (event) => {
    const form = event.detail.elt.closest?.(".feedback");
    if (!form) return;
    form.scrollIntoView({ block: "nearest" });
    announcer.say(form.querySelector("[data-feedback-said]")?.textContent ?? "");
  });
}
