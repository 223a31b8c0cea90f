"""Every word of the chat is translated into every language, and stays so."""

from __future__ import annotations

import re

import pytest

from apps.chat.errors import ChatError
from tests import unmarked
from tests.catalogues import DOMAINS, LANGUAGES, ROOT, Catalogue, marked, places_of

every_catalogue = pytest.mark.parametrize(
    ("language", "domain"), [(code, domain) for code in LANGUAGES for domain in DOMAINS]
)
TRANSLATED_PAGES = [
    *sorted(ROOT.glob("templates/*.html")),
    *sorted(ROOT.glob("templates/chat/**/*.html")),
    *sorted(ROOT.glob("templates/account/*.html")),
    *sorted(ROOT.glob("templates/tenants/invitation*.html")),
    ROOT / "templates" / "tenants" / "home.html",
]
# Shown to the tenant's manager, who invites: among the pages that are in English.
TRANSLATED_PAGES.remove(ROOT / "templates" / "tenants" / "invitation_created.html")
SCRIPTS = [
    *sorted(ROOT.glob("static/js/chat/**/*.js")),
    *(ROOT / "static" / "js" / name for name in ("site.js", "theme.js", "i18n.js")),
]


def name_of(path: object) -> str:
    return str(path).removeprefix(f"{ROOT}/")


@every_catalogue
def test_every_sentence_of_the_sources_is_in_the_catalogue(language: str, domain: str) -> None:
    known = {entry.key for entry in Catalogue(language, domain).entries}
    missing = {words: path for words, path in marked(domain).items() if words not in known}
    assert not missing, "run scripts/words"


@every_catalogue
def test_every_sentence_is_translated(language: str, domain: str) -> None:
    catalogue = Catalogue(language, domain)
    assert [e.key for e in catalogue.entries if e.is_fuzzy or not all(e.forms)] == []


@every_catalogue
def test_every_plural_has_the_forms_of_its_language(language: str, domain: str) -> None:
    catalogue = Catalogue(language, domain)
    expected = {True: catalogue.plurals, False: 1}
    wrong = [e.key for e in catalogue.entries if len(e.forms) != expected[bool(e.plural)]]
    assert wrong == []


def test_arabic_has_six_plural_forms() -> None:
    assert Catalogue("ar", "django").plurals == 6


@every_catalogue
def test_no_translation_loses_or_makes_up_a_place(language: str, domain: str) -> None:
    catalogue = Catalogue(language, domain)
    wrong = []
    for entry in catalogue.entries:
        for number, form in enumerate(entry.forms):
            places = places_of(form)
            may_lack = bool(entry.plural) and catalogue.says_one_number(number)
            if places - entry.places or (entry.places - places and not may_lack):
                wrong.append(form)
    assert wrong == []


@every_catalogue
def test_what_is_compiled_is_what_is_written(language: str, domain: str) -> None:
    """The contents are compared: a checkout sets all times anew."""
    catalogue = Catalogue(language, domain)
    compiled = {key: words for key, words in catalogue.compiled.items() if key != ""}
    assert compiled == catalogue.to_compile(), "run scripts/words"


@pytest.mark.parametrize("domain", DOMAINS)
def test_chinese_has_full_width_punctuation(domain: str) -> None:
    half_width = re.compile(r"[\u4e00-\u9fff] ?[,.;:?!](?!\w)|[,;:?!][\u4e00-\u9fff]")
    forms = [form for entry in Catalogue("zh-hans", domain).entries for form in entry.forms]
    assert [form for form in forms if half_width.search(form)] == []


@pytest.mark.parametrize("domain", DOMAINS)
def test_french_has_no_breaking_space_before_punctuation(domain: str) -> None:
    forms = [form for entry in Catalogue("fr", domain).entries for form in entry.forms]
    assert [form for form in forms if re.search(r" [;:!?»]|« ", form)] == []


# --- Words that nobody marked --------------------------------------------------------------------


@pytest.mark.parametrize("template", TRANSLATED_PAGES, ids=name_of)
def test_no_words_of_a_translated_page_are_unmarked(template: object) -> None:
    assert unmarked.in_template(template) == []  # type: ignore[arg-type]


@pytest.mark.parametrize("script", SCRIPTS, ids=name_of)
def test_no_words_of_the_chats_scripts_are_unmarked(script: object) -> None:
    assert unmarked.in_script(script) == []  # type: ignore[arg-type]


def test_no_words_of_the_chats_errors_and_notices_are_unmarked() -> None:
    errors = _names(ChatError) - {"FrameMalformed"}  # for people who write clients
    modules = [*ROOT.glob("apps/chat/**/*.py"), *ROOT.glob("apps/retrieval/hops/*.py")]
    found = [said for path in sorted(modules) for said in unmarked.in_module(path, errors)]
    assert found == []


def _names(kind: type[Exception]) -> set[str]:
    return {kind.__name__}.union(*(_names(each) for each in kind.__subclasses__()))
