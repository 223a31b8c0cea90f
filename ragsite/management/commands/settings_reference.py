"""The page `docs/settings.md`, made from the settings themselves."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from ragsite.env import REGISTRY, Setting

_INTRODUCTION = """\
# Settings

Every setting is an environment variable, and every one has a default that works: `make run` needs
none of them. Set one in the shell, in the service's unit file, or in `docker/.env`. The site reads
them when it starts; restart it after a change.

- A value that can't be right stops the start with a message that says what to do. Values that are
  right one by one and wrong together are found by `manage.py check`.
- Secrets can come from files: `SECRET_KEY_FILE=/run/secrets/key` reads `SECRET_KEY` from there.
  This holds for every setting below.
- Lists are separated by commas. Switches are `1` or `0`.
- On one machine, leave everything that ends in `_URL` empty: the stack starts its own database,
  queue, encoder and engine. Setting one of them replaces that part.

| Setting | Default | What it does |
|---|---|---|
"""


class Command(BaseCommand):
    help = "Print the reference of all settings, as kept in docs/settings.md."
    requires_system_checks = ()

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(reference(), ending="")


def reference() -> str:
    """The whole page, in Markdown; the same on every machine."""
    return _INTRODUCTION + "".join(_row(setting) for setting in REGISTRY.values())


def _row(setting: Setting) -> str:
    default = _without_this_machine(setting)
    shown = f"`{default}`" if default else "empty"
    return f"| `{setting.name}` | {_cell(shown)} | {_cell(setting.help)} |\n"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _without_this_machine(setting: Setting) -> str:
    """A default that is computed, in words instead of as it came out here."""
    if setting.name == "VAR_DIR":
        return "var"
    default = setting.default.replace(str(settings.VAR_DIR), "VAR_DIR")
    return default.replace(f":{settings.PORT}", ":PORT")
