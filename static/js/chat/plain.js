// An answer's words without what only helps to read it.

const ASIDE = ".cite, .why, .code-head";

/** What is said of an answer: no numbers of sources, no code. */
export function spokenText(body) {
  const copy = body.cloneNode(true);
  for (const part of copy.querySelectorAll(`${ASIDE}, pre`)) part.remove();
  // Cells and items are words of their own.
  for (const part of copy.querySelectorAll("td, th, li, p, h1, h2, h3, h4, h5, h6")) part.append(" ");
  return copy.textContent.replace(/\s+/g, " ").trim();
}
