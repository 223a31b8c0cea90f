// The chat page: puts its parts together.

import { gettext } from "../i18n.js";
import { Announcer } from "./announcer.js";
import { Answer } from "./answer.js";
import { Asking } from "./asking.js";
import { Branches } from "./branches.js";
import { Composer } from "./composer.js";
import { Connection } from "./connection.js";
import { Drafts } from "./drafts.js";
import { Editing } from "./editing.js";
import { Following } from "./following.js";
import { addresses } from "./ids.js";
import { openCitations, showFetchedParts } from "./opening.js";
import { Page } from "./page.js";
import { Picker } from "./picker.js";
import { helpReading } from "./reading.js";
import { Scrolling } from "./scrolling.js";
import { Shortcuts } from "./shortcuts.js";
import { Socket } from "./socket.js";
import { Sources } from "./sources.js";
import { Syncing } from "./syncing.js";
import { Thread } from "./thread.js";

const element = document.getElementById("chat");
if (element) start(element);

function start(element) {
  const { dataset } = element;
  const urls = addresses(element);
  const page = new Page(element, urls);
  const announcer = new Announcer(document.getElementById("announcer"));
  const connection = new Connection(document.getElementById("connection"));
  const picker = new Picker(element);
  const sources = new Sources(document.getElementById("sources"));
  const thread = new Thread(document.getElementById("thread"), (alias) => picker.label(alias));
  const drafts = new Drafts(dataset);
  const refuse = (words) => page.refuse(words);
  const make = (answer) => new Answer(answer, urls.citation);
  let opened = false; // whether there was a connection before

  const composer = new Composer(document.getElementById("composer"), {
    onSend: ask,
    onStop: () => asking.stop(),
    onInput: (text) => drafts.write(page.conversation, text),
    onUp: () => thread.lastQuestion && editing.open(thread.lastQuestion),
  });
  const socket = new Socket(dataset.socket, { onFrame, onState });
  const send = (frame) => socket.send(frame);
  const following = new Following({ send, make, onFrame: onAnswer, onGone: (e) => syncing.one(e) });
  const asking = new Asking({
    socket,
    thread,
    picker,
    following,
    announcer,
    make,
    refuse,
    onChange: busy,
    onStarted,
  });
  const syncing = new Syncing({ page, thread, following, asking, urls, onChange: busy });
  const branches = new Branches({
    url: () => urls.branch(page.conversation),
    headers: () => JSON.parse(document.body.getAttribute("hx-headers")),
    onThread: (fresh) => syncing.adopt(fresh),
    onRefused: refuse,
  });
  const editing = new Editing({
    limit: composer.limit,
    onSave: (question, text) => took(asking.edit(question, text, page.conversation)),
  });
  const scrolling = new Scrolling(
    document.getElementById("thread-scroll"),
    thread.root,
    document.getElementById("jump"),
  );
  new Shortcuts(document.getElementById("shortcuts"), {
    search: () => document.dispatchEvent(new CustomEvent("chat:search")),
    newChat: () => element.querySelector("[data-new-chat]").click(),
    copyLast: () => thread.lastAnswer?.querySelector(".answer-foot [data-copy]")?.click(),
    stop: () => asking.stop(),
    closeDrawer: () => page.closeDrawer(),
  });
  openCitations(sources);
  showFetchedParts(announcer);
  helpReading((words) => announcer.say(words));
  socket.connect();
  showStored();

  function showStored() {
    if (thread.lastAnswer) sources.fillFrom(thread.lastAnswer);
    const draft = drafts.read(page.conversation);
    // One that was sent just before the page was left has arrived since.
    const sent = draft === thread.lastQuestion?.querySelector(".question-text").textContent;
    if (sent) drafts.write(page.conversation, "");
    else if (draft && !composer.text) composer.set(draft);
  }

  function ask(question) {
    return took(asking.ask(question, page.conversation));
  }

  function took(taken) {
    if (taken) {
      picker.compareNoMore();
      scrolling.toEnd();
    }
    return taken;
  }

  function again(how, answer) {
    if (element.dataset.answering === "true" || !how.call(asking, answer)) return;
    composer.field.focus();
    scrolling.toEnd();
  }

  function busy() {
    const answering = asking.pending.size + following.size > 0;
    dataset.answering = String(answering);
    composer.setBusy(answering);
    syncing.settled();
  }

  function onFrame(frame) {
    if (frame.type === "error") onError(frame);
    else if (frame.type === "answer.started" && asking.started(frame)) following.receive(frame);
    else if (frame.type.startsWith("answer.")) following.receive(frame);
    else if (frame.type === "conversation.asked") syncing.asked(frame);
    else onConversation(frame);
  }

  function onStarted({ conversation, title }) {
    // What has been typed since is the draft now.
    drafts.write(page.conversation, "");
    if (page.conversation !== conversation) page.opened(conversation, title);
    drafts.write(conversation, composer.text);
    busy();
  }

  function onConversation({ type, conversation, title }) {
    if (type === "conversation.titled" && conversation === page.conversation) page.titled(title);
    page.listed(conversation);
  }

  function onAnswer(answer, frame, written) {
    const isLast = answer === thread.lastAnswer;
    if (frame.type === "answer.sources" && isLast) sources.fillFrom(answer);
    if (frame.type !== "answer.finished") return;
    announcer.answered(written, answer.closest(".compared")?.innerText.split("\n")[0]);
    if (isLast) thread.setFollowUps(frame.follow_ups ?? []);
    if (isLast) sources.fillFrom(answer);
    busy();
  }

  function onError(frame) {
    const asked = asking.refused(frame.id);
    if (asked?.old) editing.open(asked.old, asked.text);
    else if (asked?.text && !composer.text) composer.fill(asked.text);
    // These two close the socket, and the line about the connection says why.
    if (!["signed_out", "not_a_member"].includes(frame.code)) refuse(frame.message);
  }

  function onState(state, code) {
    dataset.connection = state;
    composer.setAllowed(state === "open" && dataset.canAsk === "true");
    connection.show(state, { code, answering: following.size > 0 });
    if (state === "closed") for (const id of asking.pending.keys()) onError({ id, code: "signed_out" });
    if (state !== "open") return;
    if (opened) syncing.reconnected();
    else syncing.follow();
    opened = true;
  }

  const clicks = {
    "[data-regenerate]": (button) => again(asking.regenerate, button.closest(".answer")),
    "[data-continue]": (button) => again(asking.goOn, button.closest(".answer")),
    "[data-edit]": (button) => editing.open(button.closest(".question")),
    "[data-branch]": async (button) => announcer.say(await branches.step(button)),
    "[data-choose]": choose,
    "[data-suggestion]": suggest,
    "[data-drawer-toggle]": () => page.toggleDrawer(),
    "[data-show-sources]": (button) => {
      sources.showAnswer(button.closest(".answer") ?? thread.lastAnswer ?? element, button);
    },
  };

  async function choose(button) {
    const side = button.closest(".compared");
    if (!(await branches.show(side.querySelector(".answer").dataset.answer))) return;
    announcer.say(gettext("The chat goes on with this answer."));
    composer.field.focus();
  }

  /** A suggestion is sent as it is; what is being typed is not thrown away for it. */
  function suggest(button) {
    const { suggestion } = button.dataset;
    if (composer.busy) return;
    if (composer.allowed && ask(suggestion)) composer.field.focus();
    else if (!composer.text) composer.fill(suggestion);
  }

  document.addEventListener("click", (event) => {
    for (const [selector, act] of Object.entries(clicks)) {
      const button = event.target.closest(selector);
      if (button) act(button);
    }
  });
}
