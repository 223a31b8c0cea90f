"""The system's Chromium, and how it is started."""

from __future__ import annotations

import shutil

CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
]
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> str | None:
    """Path of the system's Chromium."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)
