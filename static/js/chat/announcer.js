// What a screen reader is told of answers: that one is looked for, and the whole of it at its end.

import { fill, gettext } from "../i18n.js";

export class Announcer {
  constructor(region) {
    this.region = region;
  }

  say(words) {
    this.region.textContent = words;
  }

  searching() {
    this.say(gettext("Searching your documents."));
  }

  /** `model` names the side where two answers stand side by side. */
  answered(answer, model) {
    const words = model ? gettext("Answer of %(model)s: %(text)s") : gettext("Answer: %(text)s");
    this.say(fill(words, { model, text: answer.spoken() }));
  }
}
