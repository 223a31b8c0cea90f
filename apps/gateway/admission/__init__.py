"""Whether a request may be made, and may spend: rates first, then the budgets.

    async with admitted(caller) as admission:          # requests a minute, calls at once (Redis)
        async with admission.reserved(worst) as budget:    # tokens a minute, money (PostgreSQL)
            … await budget.settle(call)                    # a ledger row, and the counters

The two are apart because a cached answer is a request but spends nothing. A request that is
refused at either leaves every counter as it was.
"""

from __future__ import annotations

from apps.gateway.admission.admission import Admission, admitted, admitted_beside
from apps.gateway.admission.budget import Budget
from apps.gateway.admission.worst import WorstCase

__all__ = ["Admission", "Budget", "WorstCase", "admitted", "admitted_beside"]
