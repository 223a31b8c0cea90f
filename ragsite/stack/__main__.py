"""`python -m ragsite.stack`: the one-machine stack. ONCE=1 ends it after the demo's answer."""

from __future__ import annotations

import os
import sys

from ragsite.stack.serve import serve

sys.exit(serve(once=os.environ.get("ONCE", "") not in ("", "0")))
