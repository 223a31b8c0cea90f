// The chat page: puts socket, composer, answers and sources together.

import { Answer } from "./answer.js";
import { Composer } from "./composer.js";
import { Picker } from "./picker.js";
import { Socket } from "./socket.js";
import { Sources } from "./sources.js";

const ANY_ID = "00000000-0000-0000-0000-000000000000";
const ANNOUNCE_AFTER_MS = 1000;
const NEAR_END_PX = 120; // closer to the end than this, the thread follows what is written

const page = document.getElementById("chat");
if (page) start(page);

function start(page) {
  const { dataset } = page;
  const scroller = document.getElementById("thread-scroll");
  const announcer = document.getElementById("announcer");
  const connection = document.getElementById("connection");
  const refusal = document.getElementById("refusal");
  const sources = new Sources(document.getElementById("sources"));
  const picker = new Picker(page);
  const citationUrl = (id) => dataset.citationUrl.replace(ANY_ID, id);
  const thread = () => document.getElementById("thread"); // replaced when it is fetched anew

  let conversation = dataset.conversation || null;
  let announcing;
  let current = null; // the answer being written: { id, answer, question, restore }
  let broken = false; // the connection broke while an answer was being written

  const composer = new Composer(document.getElementById("composer"), {
    onSend: ask,
    onStop: () => {
      if (current?.answer.id) socket.send({ type: "stop", answer: current.answer.id });
    },
  });
  const socket = new Socket(dataset.socket, { onFrame, onState });
  socket.connect();
  scrollToEnd();
  const lastAnswer = () => [...thread().querySelectorAll(".answer")].at(-1);
  if (lastAnswer()) sources.fillFrom(lastAnswer());

  function ask(question) {
    refuse("");
    const collections = picker.collections();
    if (!collections.length) {
      refuse("Pick at least one collection to search.");
      return false;
    }
    const id = newId();
    const sent = socket.send({
      type: "ask",
      id,
      conversation,
      collections,
      after: null,
      models: [picker.model()].filter(Boolean),
      question,
    });
    if (!sent) {
      refuse("There is no connection at the moment. Your question is kept; send it again.");
      return false;
    }
    const asked = copyOf("question-template");
    asked.querySelector(".question-text").textContent = question;
    const shell = copyOf("answer-template");
    thread().append(asked, shell);
    begin(id, shell, question, () => {
      asked.remove();
      shell.remove();
      if (!composer.field.value) composer.fill(question);
    });
    scrollToEnd();
    return true;
  }

  function regenerate(old) {
    if (current) return;
    refuse("");
    const id = newId();
    const sent = socket.send({
      type: "regenerate",
      id,
      answer: old.dataset.answer,
      model: picker.model(),
    });
    if (!sent) {
      refuse("There is no connection at the moment. Try again when it is back.");
      return;
    }
    const shell = copyOf("answer-template");
    old.replaceWith(shell);
    begin(id, shell, "", () => shell.replaceWith(old));
    composer.field.focus();
  }

  function begin(id, shell, question, restore) {
    const answer = new Answer(shell, citationUrl);
    answer.onPaint = followEnd;
    current = { id, answer, question, restore };
    page.dataset.answering = "true";
    composer.setBusy(true);
  }

  function onFrame(frame) {
    if (frame.type === "error") return onError(frame);
    const ours =
      frame.type === "answer.started" ? frame.id === current?.id : frame.answer === current?.answer.id;
    if (!current || !ours) return undefined;
    const wasNear = isNearEnd();
    if (!current.answer.receive(frame)) return undefined;
    if (frame.type === "answer.started") opened(frame);
    if (frame.type === "answer.sources") sources.fillFrom(current.answer.element);
    if (frame.type === "answer.finished") finish();
    if (wasNear) scrollToEnd();
    return undefined;
  }

  function onError(frame) {
    if (current && frame.id === current.id) {
      current.restore();
      idle();
    }
    // These two close the socket, and the line about the connection says why.
    if (!["signed_out", "not_a_member"].includes(frame.code)) refuse(frame.message);
  }

  function finish() {
    const { answer } = current;
    announcer.textContent = `Answer: ${answer.spoken()}`;
    sources.fillFrom(answer.element);
    idle();
  }

  function idle() {
    current = null;
    page.dataset.answering = "false";
    composer.setBusy(false);
  }

  /** A first question makes a conversation: give it its address and its place in the list. */
  function opened(frame) {
    if (conversation === frame.conversation) return;
    conversation = frame.conversation;
    const url = dataset.conversationUrl.replace(ANY_ID, conversation);
    history.replaceState(null, "", url);
    document.title = `${frame.title} · Chat`;
    document.getElementById("conversation-title").textContent = frame.title;
    const list = document.getElementById("conversation-list");
    window.htmx?.ajax("GET", `${dataset.listUrl}?current=${conversation}`, {
      target: list,
      swap: "outerHTML",
    });
  }

  function onState(state, code) {
    page.dataset.connection = state;
    composer.setAllowed(state === "open" && dataset.canAsk === "true");
    if (state === "offline" && current) lose();
    if (state === "open" && broken) recover();
    const words = {
      connecting: "Connecting…",
      offline: navigator.onLine
        ? "The connection to the site was lost. Trying again…"
        : "You are offline. What you type is kept.",
      closed:
        code === 4401
          ? "You have been signed out. Reload the page to sign in."
          : "You may no longer chat here. Ask a tenant manager for access.",
      open: "",
    }[state];
    clearTimeout(announcing);
    // A connection that comes up at once is not worth a word.
    announcing = setTimeout(say, state === "connecting" ? ANNOUNCE_AFTER_MS : 0, words);
  }

  function say(words) {
    connection.hidden = !words;
    connection.textContent = words;
  }

  /** The connection broke in the middle of an answer. */
  function lose() {
    if (current.answer.id) {
      broken = true;
      current.answer.end("interrupted", "The connection broke. What was written is kept.");
    } else {
      current.restore();
      refuse("The connection broke before your question arrived. It is kept; send it again.");
    }
    idle();
  }

  /** Connected again: show the answer as the site stored it, if it came to that. */
  async function recover() {
    broken = false;
    const response = await fetch(dataset.threadUrl.replace(ANY_ID, conversation), {
      redirect: "error",
    }).catch(() => null);
    if (!response?.ok || current) return;
    const template = document.createElement("template");
    template.innerHTML = await response.text();
    const stored = template.content.querySelector("#thread");
    const last = [...stored.querySelectorAll(".answer")].at(-1);
    // Still being written, or lost with the process that wrote it: what is shown here is more.
    if (last?.dataset.state === "streaming") return;
    thread().replaceWith(stored);
    window.htmx?.process(stored);
  }

  function refuse(message) {
    refusal.hidden = !message;
    refusal.textContent = message;
  }

  function isNearEnd() {
    return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR_END_PX;
  }

  function followEnd() {
    if (isNearEnd()) scrollToEnd();
  }

  function scrollToEnd() {
    scroller.scrollTop = scroller.scrollHeight;
  }

  // A thread that is fetched again must not replace an answer that is being written here.
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.target.id === "thread" && current) event.preventDefault();
  });
  // Details open below what is seen: bring them in.
  document.addEventListener("htmx:afterSwap", (event) => {
    event.target.closest(".answer-details")?.scrollIntoView({ block: "nearest" });
  });
  // The form that answers replaces the one that was sent.
  document.addEventListener("htmx:afterSettle", (event) => {
    const form = event.detail.elt.closest?.(".feedback");
    if (!form) return;
    form.scrollIntoView({ block: "nearest" });
    announcer.textContent = form.querySelector("[data-feedback-said]")?.textContent ?? "";
  });
  document.addEventListener("click", (event) => {
    const citation = event.target.closest("a[data-citation]");
    if (citation && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
      event.preventDefault();
      sources.showCitation(citation, citation.closest(".answer"));
      return;
    }
    const answer = event.target.closest(".answer");
    if (event.target.closest("[data-regenerate]")) regenerate(answer);
    if (event.target.closest("[data-show-sources]")) {
      sources.showAnswer(answer ?? lastAnswer() ?? page, event.target.closest("button"));
    }
    if (event.target.closest("[data-copy]")) copy(answer, event.target.closest("button"));
    const suggestion = event.target.closest("[data-suggestion]");
    if (suggestion) composer.fill(suggestion.dataset.suggestion);
    if (event.target.closest("[data-drawer-toggle]")) toggleDrawer(page);
  });
}

async function copy(answer, button) {
  try {
    await navigator.clipboard.writeText(answer.querySelector(".answer-body").innerText);
    const label = button.querySelector("span");
    const before = label.textContent;
    label.textContent = "Copied";
    setTimeout(() => (label.textContent = before), 1500);
  } catch {
    // The browser refused the clipboard; the text can still be selected by hand.
    getSelection().selectAllChildren(answer.querySelector(".answer-body"));
  }
}

function toggleDrawer(page) {
  const open = page.dataset.drawer !== "open";
  page.dataset.drawer = open ? "open" : "closed";
  page.querySelector(".drawer-button").setAttribute("aria-expanded", String(open));
  if (open) page.querySelector(".conversations a").focus();
}

function copyOf(templateId) {
  return document.getElementById(templateId).content.firstElementChild.cloneNode(true);
}

// crypto.randomUUID exists on secure origins only; a site tried out on a LAN is not one.
function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6] & 0x0f) | 0x40;
  bytes[8] = (bytes[8] & 0x3f) | 0x80;
  const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
