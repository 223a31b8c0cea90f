// What was typed and not sent, kept in this browser: it survives a reload.

const KEPT_DAYS = 30;
const DAY_MS = 86_400_000;

export class Drafts {
  constructor({ tenant, user }) {
    this.prefix = `draft:${tenant}:${user}:`;
    quietly(() => this.prune());
    // Whoever signs in next on this browser finds none of them.
    document.addEventListener("submit", (event) => {
      if (event.target.matches('form[action$="/logout/"]')) quietly(() => removeAll("draft:"));
    });
  }

  /** The draft of a conversation, or of a new one where it is empty. */
  read(conversation) {
    return quietly(() => JSON.parse(localStorage.getItem(this.key(conversation)))?.text) ?? "";
  }

  write(conversation, text) {
    const key = this.key(conversation);
    quietly(() => {
      if (!text.trim()) localStorage.removeItem(key);
      else localStorage.setItem(key, JSON.stringify({ text, at: Date.now() }));
    });
  }

  key(conversation) {
    return this.prefix + (conversation || "new");
  }

  prune() {
    for (const key of Object.keys(localStorage).filter((each) => each.startsWith("draft:"))) {
      const at = quietly(() => JSON.parse(localStorage.getItem(key)).at) ?? 0;
      if (Date.now() - at > KEPT_DAYS * DAY_MS) localStorage.removeItem(key);
    }
  }
}

function removeAll(prefix) {
  for (const key of Object.keys(localStorage)) {
    if (key.startsWith(prefix)) localStorage.removeItem(key);
  }
}

/** Storage may be full or forbidden, and what is in it spoilt: a draft then lasts for the page. */
function quietly(action) {
  try {
    return action();
  } catch {
    return null;
  }
}
