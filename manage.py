#!/usr/bin/env python
"""Django's command line, with the one-machine stack's parts at hand where none are configured."""

from __future__ import annotations

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ragsite.settings")
    from ragsite.stack.parts_for_command import ensure_parts

    with ensure_parts(sys.argv[1:]):
        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
