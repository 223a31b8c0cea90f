"""Reading an answer: tables, code, formulas, previews, doubts, copying, reading aloud, feedback."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.db import connections
from playwright.sync_api import Locator, expect

from apps.documents.models import Page
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.browser.doubles import QUESTION, ChatPage, ChatSite
from tests.contract.tgi import Behaviour

Tab = Callable[..., ChatPage]
CITED = "Employees receive 25 days of paid leave a year [1]. Penguins govern the moon [1]."
RICH = f"""## What holds

{CITED}

| Kind | Days |
|------|-----:|
| Paid leave | 25 |
| A very long kind of leave that needs a lot of room to be shown in full | 1 |

- Ask your manager with `leave --days 3`.
- Wait for **approval**.

The share is $\\frac{{25}}{{365}}$, and in full:

$$
\\sum_{{i=1}}^{{n}} x_i = \\frac{{n(n+1)}}{{2}}
$$

```python
def leave(days: int) -> str:
    # how much is left
    return f"{{days}} days"
```

That is all.
"""


def pieces(text: str) -> tuple[str, ...]:
    """Tokens as a model writes them: a word or a few signs each."""
    return tuple(re.findall(r"\s*[^\s]{1,6}|\s+$", text))


def answering(chat_site: ChatSite, text: str, *, token_s: float = 0.0) -> None:
    chat_site.tgi.script(Behaviour(tokens=pieces(text), token_s=token_s))


@pytest.fixture
def chat(chat_site: ChatSite, tab: Tab) -> ChatPage:
    """An answer with a bit of everything."""
    opened = tab()
    answering(chat_site, RICH)
    opened.ask_and_wait(QUESTION)
    return opened


def cite(chat: ChatPage) -> Locator:
    return chat.text.locator("a.cite").first


def preview(chat: ChatPage) -> Locator:
    return chat.page.locator(".preview-box")


def test_tables_code_and_formulas_are_shown_as_such(chat: ChatPage) -> None:
    def check() -> None:
        expect(chat.text.get_by_role("table")).to_contain_text("Paid leave")
        expect(chat.text.locator(".code .hl-keyword").first).to_have_text("def")
        expect(chat.text.locator("math")).to_have_count(2)
        expect(chat.text.locator("math mfrac").first).to_be_visible()
        expect(chat.text).not_to_contain_text("$")

    check()
    chat.shoot("reading-light")
    chat.page.emulate_media(color_scheme="dark")
    chat.shoot("reading-dark")
    chat.page.reload()
    chat.wait_for_connection()
    check()


def test_nothing_finished_moves_or_is_painted_again(chat_site: ChatSite, tab: Tab) -> None:
    chat = tab()
    answering(chat_site, RICH, token_s=0.02)
    chat.page.evaluate(
        """() => {
            window.repainted = [];
            window.moved = [];
            const tops = new Map();
            const look = () => {
                const body = document.querySelector("#thread .answer:last-of-type .answer-body");
                for (const block of body?.querySelectorAll(":scope > :not(.tail)") ?? []) {
                    const top = block.offsetTop;
                    if (tops.has(block) && Math.abs(tops.get(block) - top) > 1) {
                        moved.push(block.outerHTML.slice(0, 80));
                    }
                    tops.set(block, top);
                }
                for (const block of tops.keys()) {
                    if (!block.isConnected) repainted.push(block.outerHTML.slice(0, 200));
                    if (!block.isConnected) tops.delete(block);
                }
                requestAnimationFrame(look);
            };
            look();
        }"""
    )
    chat.ask(QUESTION)
    expect(chat.text.locator(":scope > .table-box")).to_be_visible()
    expect(chat.last).to_have_attribute("data-state", "streaming")
    chat.shoot("reading-streaming")
    chat.wait_for("complete")
    expect(chat.text.locator(".tail")).to_have_count(0)
    expect(chat.text.locator(":scope > *")).to_have_count(8)
    chat.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => done()))")
    assert chat.page.evaluate("moved") == []
    assert chat.page.evaluate("repainted") == [], "the end brings what was there already"


@pytest.mark.parametrize(
    ("text", "shown", "hidden"),
    [
        ("Here is code:\n\n```python\nx = 1\n", ".tail .code pre", "```"),
        ("| Kind | Days |\n|---", ".tail table th", "|"),
        ("So it is **very", ".tail strong", "*"),
        ("See [the handbook](https://handb", ".tail p", "]("),
        ("In full:\n\n$$\n\\frac{1}{2", ".tail .formula-source", "$$"),
        ("- one\n- two\n  - three", ".tail li li", "- "),
    ],
)
def test_what_is_half_written_looks_calm(
    chat_site: ChatSite, tab: Tab, text: str, shown: str, hidden: str
) -> None:
    chat = tab()
    chat_site.tgi.script(Behaviour(tokens=(*pieces(text), *[""] * 400), token_s=0.05))
    chat.ask(QUESTION)
    expect(chat.text.locator(shown).first).to_be_visible()
    expect(chat.text).not_to_contain_text(hidden)
    chat.stop.click()


def test_a_citation_is_previewed_by_mouse_and_opened_by_a_click(chat: ChatPage) -> None:
    cite(chat).hover()
    expect(preview(chat)).to_contain_text("Employees receive 25 days")
    expect(preview(chat)).to_contain_text("Page 1")
    chat.shoot("reading-preview")
    preview(chat).hover()
    chat.page.wait_for_timeout(500)
    expect(preview(chat)).to_be_visible()
    chat.page.keyboard.press("Escape")
    expect(preview(chat)).to_be_hidden()
    cite(chat).click()
    panel = chat.page.locator("#sources")
    expect(panel.locator("mark")).to_contain_text("25 days")


def test_a_citation_is_previewed_and_opened_by_keys(chat: ChatPage) -> None:
    chat.text.locator("h2").evaluate("(element) => { element.tabIndex = -1; element.focus(); }")
    chat.page.keyboard.press("Tab")
    expect(cite(chat)).to_be_focused()
    expect(preview(chat)).to_contain_text("Employees receive 25 days")
    expect(cite(chat)).to_have_attribute("aria-describedby", re.compile("^popover-"))
    chat.page.keyboard.press("Escape")
    expect(preview(chat)).to_be_hidden()
    expect(cite(chat)).to_be_focused()
    chat.page.keyboard.press("Enter")
    expect(chat.page.locator("#sources-title")).to_be_focused()
    chat.page.keyboard.press("Escape")
    expect(cite(chat)).to_be_focused()


def test_an_unsupported_sentence_says_why(chat: ChatPage) -> None:
    why = chat.text.get_by_role("button", name=re.compile("^Not in the sources"))
    expect(why).to_have_count(chat.text.locator(".unsupported").count())
    expect(chat.text.locator(".unsupported").first).to_have_text("Penguins govern the moon.")
    why.first.hover()
    box = chat.page.locator(".popover-box:popover-open")
    expect(box).to_contain_text("no passage says this")
    why.first.click()
    expect(chat.text.locator(".why-words")).to_contain_text("no passage says this")
    why.first.click()
    expect(chat.text.locator(".why-words")).to_have_count(0)


def copied(chat: ChatPage) -> str:
    text: str = chat.page.evaluate("navigator.clipboard.readText()")
    return text


def test_an_answer_is_copied_with_and_without_its_citations(chat: ChatPage) -> None:
    chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.last.get_by_role("button", name="Copy", exact=True).click()
    expect(chat.page.locator("#announcer")).to_have_text("Copied")
    text = copied(chat)
    assert "Employees receive 25 days of paid leave a year. [1]" in text
    assert "Sources:" in text
    assert "- [1]" in text
    assert "$$" in text
    rich = chat.page.evaluate(
        """async () => {
            const [item] = await navigator.clipboard.read();
            return (await item.getType("text/html")).text();
        }"""
    )
    assert "<table>" in rich
    chat.page.locator("#announcer").evaluate("(element) => { element.textContent = ''; }")
    chat.last.get_by_role("button", name="Copy without citations").click()
    expect(chat.page.locator("#announcer")).to_have_text("Copied")
    assert "[1]" not in copied(chat)
    assert "Sources:" not in copied(chat)


def test_code_has_a_button_that_copies_it(chat: ChatPage) -> None:
    chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.text.get_by_role("button", name="Copy code").click()
    expect(chat.text.locator(".code-copy")).to_have_text("Copied")
    assert copied(chat).startswith("def leave(days: int) -> str:\n    # how")


SPEECH = """
    window.spoken = [];
    const queue = [];
    const speech = {
        paused: false, speaking: false,
        getVoices: () => [{ lang: "en" }],
        addEventListener() {},
        speak(said) { window.spoken.push([said.text, said.lang]); queue.push(said); },
        pause() { this.paused = true; },
        resume() { this.paused = false; },
        cancel() { queue.length = 0; },
    };
    window.saidOne = () => queue.shift()?.onend?.();
    Object.defineProperty(window, "speechSynthesis", { value: speech });
    window.SpeechSynthesisUtterance = class { constructor(text) { this.text = text; } };
"""


def test_an_answer_is_read_aloud_sentence_by_sentence(chat_site: ChatSite, tab: Tab) -> None:
    chat = tab(before=lambda page: page.add_init_script(SPEECH))
    answering(chat_site, f"{CITED}\n\n```\ncode\n```\n\nThe end.")
    chat.ask_and_wait(QUESTION)
    speaking = chat.last.get_by_role("group", name="Reading aloud")
    speaking.get_by_role("button", name="Read aloud").click()
    assert chat.page.evaluate("spoken")[0] == [
        "Employees receive 25 days of paid leave a year.",
        "en",
    ]
    chat.page.evaluate("saidOne()")
    assert chat.page.evaluate("spoken.length") == 2
    speaking.get_by_role("button", name="Pause").click()
    assert chat.page.evaluate("speechSynthesis.paused")
    speaking.get_by_role("button", name="Go on reading").click()
    chat.page.evaluate("saidOne()")
    assert [text for text, _ in chat.page.evaluate("spoken")][1:] == [
        "Penguins govern the moon.",
        "The end.",
    ]
    speaking.get_by_role("button", name="Stop reading").click()
    expect(speaking.get_by_role("button", name="Read aloud")).to_be_focused()


def test_without_voices_nothing_offers_to_read(chat_site: ChatSite, tab: Tab) -> None:
    silent = SPEECH.replace('[{ lang: "en" }]', "[]")
    chat = tab(before=lambda page: page.add_init_script(silent))
    answering(chat_site, CITED)
    chat.ask_and_wait(QUESTION)
    expect(chat.last.locator(".speaking")).to_be_hidden()


def test_a_thumb_is_given_with_reasons_by_keys(chat: ChatPage) -> None:
    form = chat.last.locator(".feedback")
    bad = form.get_by_role("button", name="Bad answer")
    bad.focus()
    bad.press("Enter")
    expect(bad).to_be_focused()
    wrong = form.get_by_role("checkbox", name="Wrong")
    wrong.focus()
    wrong.press("Space")
    form.get_by_role("textbox").fill("It is 30.")
    form.get_by_role("button", name="Save feedback").press("Enter")
    expect(form).to_contain_text("Saved with what you said.")
    chat.shoot("reading-feedback")
    chat.page.reload()
    chat.wait_for_connection()
    expect(form.get_by_role("checkbox", name="Wrong")).to_be_checked()
    expect(form.get_by_role("textbox")).to_have_value("It is 30.")


def test_a_member_sees_time_model_tokens_and_cost_but_no_hops(chat: ChatPage) -> None:
    details = chat.last.locator(".answer-details")
    details.locator("summary").click()
    for words in ("Time", "Model", "tokens", "Cost"):
        expect(details).to_contain_text(words)
    expect(details.locator("table")).to_have_count(0)


@pytest.mark.parametrize("width", [390, 1280])
def test_wide_things_scroll_in_their_own_box(chat_site: ChatSite, tab: Tab, width: int) -> None:
    chat = tab(width=width)
    answering(chat_site, RICH.replace("| 25 |", f"| {'wide_' * 60} |"))
    chat.ask_and_wait(QUESTION)
    chat.shoot(f"reading-{width}")
    assert chat.page.evaluate("document.documentElement.scrollWidth") <= width


def test_an_answer_in_arabic_is_read_from_right_to_left(chat_site: ChatSite, tab: Tab) -> None:
    chat = tab()
    answering(
        chat_site,
        "يحصل الموظفون على 25 يوما [1].\n\n- أولا\n- ثانيا\n\n"
        "```python\nx = 1\n```\n\n$x^2$ نعم.\n",
    )
    chat.ask_and_wait(QUESTION)
    chat.shoot("reading-arabic")
    assert chat.text.evaluate("(body) => getComputedStyle(body).direction") == "rtl"
    code = chat.text.locator(".code pre")
    assert code.evaluate("(element) => getComputedStyle(element).direction") == "ltr"


def test_the_pages_script_is_well_under_its_budget(chat: ChatPage) -> None:
    sizes = chat.page.evaluate(
        """() => performance.getEntriesByType("resource")
            .filter(({ name }) => name.endsWith(".js") || name.includes("jsi18n"))
            .map(({ decodedBodySize }) => decodedBodySize)"""
    )
    assert sum(sizes) < 250_000


def _lengthen_the_handbook() -> None:
    tenant = Tenant.objects.get(slug="acme")
    with tenant_scope(tenant.id):
        page = Page.objects.filter(document__name="handbook.md").get()
        page.text += "\n" + "a" * 2000 + " zebra " + "b" * 2000 + " yak"
        page.save()
    connections["default"].close()


def test_what_stands_after_a_passage_is_at_hand(chat_site: ChatSite, chat: ChatPage) -> None:
    chat_site.ask(_lengthen_the_handbook)
    cite(chat).click()
    panel = chat.page.locator("#sources")
    more = panel.get_by_role("button", name="Show what stands after")
    more.focus()
    more.press("Enter")
    expect(panel.locator(".around-text")).to_contain_text("zebra")
    expect(more).to_be_focused()
    more.press("Enter")
    expect(panel.locator(".around-text").last).to_contain_text("yak")
    expect(panel).to_contain_text("The document ends here.")
