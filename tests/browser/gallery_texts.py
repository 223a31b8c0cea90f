"""What is asked and answered in the pictures of the chat."""

from __future__ import annotations

# (headings, passage)
HANDBOOK = (
    ("Leave › Paid leave", "Employees receive 25 days of paid leave a year, granted in January."),
    (
        "Leave › Leave in the first year",
        "In the first year paid leave is granted in proportion to the months worked, rounded up to"
        " half days.",
    ),
    (
        "Leave › Leave that is not taken",
        "Days of leave that are not taken by 31 March of the next year lapse.",
    ),
    (
        "Leave › Asking for leave",
        "Leave is asked for in the calendar, at least two weeks before it begins.",
    ),
)
TRAVEL = (
    (
        "Refund of travel expenses",
        "Travel expenses are refunded within 14 days after the receipts arrive.",
    ),
    ("Train journeys", "Train journeys of more than four hours are booked in first class."),
    ("Hotel nights", "A night in a hotel is refunded up to 140 euros, breakfast included."),
)
ARABIC_GUIDE = (
    (
        "الإجازة المدفوعة",
        "يحصل الموظفون على 25 يوما من الإجازة المدفوعة كل سنة، وتُمنح في شهر يناير.",
    ),
    (
        "السنة الأولى",
        "في السنة الأولى تُمنح الإجازة بنسبة عدد أشهر العمل، وتُقرّب إلى نصف يوم. تسقط أيام الإجازة"
        " التي لا تؤخذ قبل 31 مارس من السنة التالية.",
    ),
)
LIBRARY = (
    ("Staff handbook", "Staff handbook 2026.md", HANDBOOK),
    ("Travel", "Travel policy.md", TRAVEL),
    ("دليل الموظفين", "دليل الموظفين.md", ARABIC_GUIDE),
)

QUESTION = "How many days of paid leave do employees receive in the first year?"
ANSWER = (
    "Employees receive **25 days** of paid leave a year, granted in January [1]. In the first year"
    " paid leave is granted in proportion to the months worked, rounded up to half days [2]."
    r"""

| Joined | Share of a year | Entitled to |
|---|--:|--:|
| January | 12/12 | 25 |
| April | 9/12 | 19 |
| October | 3/12 | 6.5 |

With $m$ months worked, rounded up to half days:

$$d = \frac{\lceil 2 \cdot 25 \cdot m / 12 \rceil}{2}$$

```python
from math import ceil

def leave_days(months: int) -> float:
    return ceil(2 * 25 * months / 12) / 2
```

"""
    "Days of leave that are not taken by 31 March of the next year lapse [3]. Most colleagues take"
    " two weeks in August."
)
TITLE = "Paid leave in the first year"

COMPARED = "Up to how much is a night in a hotel refunded?"
FIRST_SIDE = "A night in a hotel is refunded up to 140 euros, breakfast included [1]."
SECOND_SIDE = (
    "Up to **140 euros**: a night in a hotel is refunded up to 140 euros, breakfast included [1]."
    "\n\n- Travel expenses are refunded within 14 days after the receipts arrive [2].\n"
    "- Dinner is refunded up to 30 euros."
)
COMPARED_TITLE = "Hotel nights"

ARABIC_QUESTION = "كم يوما من الإجازة المدفوعة يحصل عليها الموظفون كل سنة؟"
ARABIC_ANSWER = """يحصل الموظفون على **25 يوما** من الإجازة المدفوعة كل سنة، وتُمنح في شهر يناير [1].

- في السنة الأولى تُمنح الإجازة بنسبة عدد أشهر العمل، وتُقرّب إلى نصف يوم [2].
- تسقط أيام الإجازة التي لا تؤخذ قبل 31 مارس من السنة التالية [3].

| بدء العمل | أشهر العمل | الأيام |
|---|--:|--:|
| يناير | 12 | 25 |
| أبريل | 9 | 19 |"""
ARABIC_TITLE = "الإجازة المدفوعة"

# (title, days ago, folder, question, answer)
OLDER = (
    (
        "First class on trains",
        1,
        "Travel",
        "When may I travel in first class?",
        "Train journeys of more than four hours are booked in first class.",
    ),
    (
        "Asking for leave",
        2,
        "",
        "How do I ask for days of leave?",
        "Leave is asked for in the calendar, at least two weeks before it begins.",
    ),
    (
        "Receipts that came late",
        6,
        "Travel",
        "What if my receipts arrive late?",
        "Travel expenses are refunded within 14 days after the receipts arrive.",
    ),
    (
        "Leave left over in March",
        8,
        "",
        "Can I keep days of leave for next year?",
        "Days of leave that are not taken by 31 March of the next year lapse.",
    ),
    ("كم تبلغ بدلات السفر؟", 9, "", "كم تبلغ بدلات السفر؟", "تُرد نفقات السفر خلال 14 يوما."),
    (
        "Urlaub im ersten Jahr",
        24,
        "",
        "Wie viele Urlaubstage habe ich im ersten Jahr?",
        "Im ersten Jahr anteilig nach Monaten, auf halbe Tage aufgerundet.",
    ),
)
