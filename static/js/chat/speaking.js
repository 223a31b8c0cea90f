// Reading an answer aloud with the browser's own voices, sentence by sentence: long texts fall
// silent in some browsers, and a pause between sentences loses nothing.

import { gettext } from "../i18n.js";
import { spokenText } from "./plain.js";

// Languages that their letters tell; others are read in the page's language.
const LETTERS = [
  ["ja", /[\u3040-\u30ff]/],
  ["ko", /[\uac00-\ud7af]/],
  ["zh", /[\u4e00-\u9fff]/],
  ["ar", /[\u0600-\u06ff]/],
  ["he", /[\u0590-\u05ff]/],
  ["ru", /[\u0400-\u04ff]/],
  ["el", /[\u0370-\u03ff]/],
  ["hi", /[\u0900-\u097f]/],
];

/** Shows the buttons where the browser has voices; one answer is read at a time. */
export function allowSpeaking() {
  const speech = window.speechSynthesis;
  if (!speech) return;
  const speaker = new Speaker(speech);
  const show = () => document.body.toggleAttribute("data-speaks", speech.getVoices().length > 0);
  speech.addEventListener?.("voiceschanged", show);
  show();
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-speak]");
    if (button) speaker.press(button);
  });
  addEventListener("pagehide", () => speaker.stop());
}

class Speaker {
  constructor(speech) {
    this.speech = speech;
    this.button = null;
  }

  press(button) {
    if (button.dataset.speak === "stop") this.stop();
    else if (button !== this.button) this.begin(button);
    else if (this.speech.paused) this.go();
    else this.pause();
  }

  begin(button) {
    this.stop();
    this.button = button;
    const text = spokenText(button.closest(".answer").querySelector(".answer-body"));
    this.language = languageOf(text);
    this.sentences = sentencesOf(text, this.language);
    this.label("reading", gettext("Pause"));
    this.next();
  }

  next() {
    const button = this.button;
    const sentence = this.sentences.shift();
    if (!sentence) {
      this.stop();
      return;
    }
    const said = new SpeechSynthesisUtterance(sentence);
    said.lang = this.language;
    said.onend = () => button === this.button && this.next();
    said.onerror = () => button === this.button && this.stop();
    this.speech.speak(said);
  }

  pause() {
    this.speech.pause();
    this.label("paused", gettext("Go on reading"));
  }

  go() {
    this.speech.resume();
    this.label("reading", gettext("Pause"));
  }

  stop() {
    if (!this.button) return;
    this.label("silent", gettext("Read aloud"));
    this.button = null;
    this.speech.cancel();
    this.speech.resume(); // a queue that was paused stays so
  }

  label(state, words) {
    const box = this.button.closest(".speaking");
    box.dataset.state = state;
    this.button.querySelector("span").textContent = words;
    // A button that is gone keeps no focus.
    const stop = box.querySelector("[data-speak=stop]");
    if (state === "silent" && document.activeElement === stop) this.button.focus();
    stop.hidden = state === "silent";
  }
}

/** A language tag: of the letters that most of the text is written in, else the page's. */
export function languageOf(text) {
  const letters = [...text.slice(0, 400)].filter((sign) => /\p{L}/u.test(sign));
  for (const [language, pattern] of LETTERS) {
    const count = letters.filter((sign) => pattern.test(sign)).length;
    if (count > (language === "ja" ? 0.1 : 0.4) * letters.length) return language;
  }
  return document.documentElement.lang || navigator.language;
}

function sentencesOf(text, language) {
  if (!window.Intl?.Segmenter) return text.match(/[^.!?。！？]+[.!?。！？]*\s*/g) ?? [];
  const segments = new Intl.Segmenter(language, { granularity: "sentence" }).segment(text);
  return [...segments].map(({ segment }) => segment.trim()).filter(Boolean);
}
