"""Collect the words that are marked for translation into `locale/`, and compile the catalogues.

`makemessages` as it is used here: all languages and both domains at once, files named without
line numbers and dates left out, so that a change of one sentence is a change of few lines.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.core.management.commands import makemessages
from django.utils import translation

DOMAINS = ("django", "djangojs")
# What is not ours, not shown to people, or not translated.
IGNORED = (".*", "docs", "static/vendor", "staticfiles", "tests", "var", "locale")
_DATE = re.compile(r'^"(?:POT-Creation|PO-Revision)-Date: .*\n', re.MULTILINE)


class _Collect(makemessages.Command):
    def __init__(self) -> None:
        super().__init__()
        # A guess from a similar sentence looks translated and is wrong: leave it empty instead.
        self.msgmerge_options = [*self.msgmerge_options, "--no-fuzzy-matching"]


class Command(BaseCommand):
    help = "Update locale/ from the sources and compile it. Needs GNU gettext."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        os.chdir(settings.BASE_DIR)
        languages = [code for code, _ in settings.LANGUAGES if code != settings.LANGUAGE_CODE]
        locales = [translation.to_locale(code) for code in languages]
        for domain in DOMAINS:
            call_command(
                _Collect(),
                locale=locales,
                domain=domain,
                ignore_patterns=list(IGNORED),
                no_wrap=True,
                add_location="file",
                no_obsolete=True,
                verbosity=0,
            )
        for path in self._catalogues(locales):
            text = path.read_text(encoding="utf-8")
            path.write_text(_DATE.sub("", text), encoding="utf-8")
        call_command("compilemessages", locale=locales, ignore_patterns=[".*"], verbosity=0)
        self._report(locales)

    def _catalogues(self, locales: list[str]) -> list[Path]:
        folder = Path(settings.LOCALE_PATHS[0])
        return sorted(path for each in locales for path in (folder / each).rglob("*.po"))

    def _report(self, locales: list[str]) -> None:
        missing = 0
        for path in self._catalogues(locales):
            found = untranslated(path.read_text(encoding="utf-8"))
            missing += len(found)
            for words in found:
                self.stdout.write(f"{path.relative_to(settings.BASE_DIR)}: {words}")
        if missing:
            raise CommandError(f"{missing} to translate; write them and run this again.")
        self.stdout.write("Every sentence is translated.")


def untranslated(catalogue: str) -> list[str]:
    """The first words of the entries of a .po file that lack a translation, or a plural form."""
    found = []
    for entry in catalogue.split("\n\n"):
        lines = [line for line in entry.splitlines() if not line.startswith("#")]
        text = "\n".join(lines)
        is_empty = re.search(r'^msgstr(?:\[\d\])? ""$(?!\n")', text, re.MULTILINE)
        words = re.search(r'^msgid "(.*)"(?:\n"(.*)")?', text, re.MULTILINE)
        if is_empty and words:
            found.append(f"{words[1]}{words[2] or ''}"[:70])
    return found
