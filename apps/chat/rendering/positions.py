"""Private-use characters that carry positions in an answer through the Markdown renderer."""

from __future__ import annotations

import re

# None of these may come from the text itself.
OPEN, CLOSE, CHIP = "\ue000", "\ue001", "\ue002"
PRIVATE = re.compile("[\ue000-\uf8ff]")
