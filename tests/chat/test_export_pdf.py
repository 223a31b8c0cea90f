"""PDF export: every script is there again when the file is read, and nothing said is run."""

from __future__ import annotations

import re
import unicodedata

import pypdfium2
import pytest

from apps.chat.errors import ExportRefused
from apps.chat.exporting import kinds
from apps.chat.exporting.kinds import EXPORTERS, Material
from apps.chat.exporting.pdf import page_data
from apps.chat.exporting.presenting import sheet_of
from apps.chat.exporting.typesetting import missing_in, typeset
from tests.chat.exported import citation, exchange, material, message, sentence

SCRIPTS = {
    "Latin": "Ça coûte 12 € – „größer“, ăn cơm chưa?",
    "Cyrillic": "Съешь ещё этих мягких французских булок.",
    "Greek": "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία, ἀρχὴ.",
    "Arabic": "تفتح المكتبة أبوابها في الساعة التاسعة.",
    "Persian": "کتابخانه ساعت نه باز می‌شود.",
    "Hebrew": "הספרייה נפתחת בתשע בבוקר.",
    "Devanagari": "पुस्तकालय सुबह नौ बजे खुलता है। क्षत्रिय",
    "Bengali": "গ্রন্থাগার সকাল নয়টায় খোলে।",
    "Tamil": "நூலகம் காலை ஒன்பது மணிக்கு திறக்கும்.",
    "Telugu": "గ్రంథాలయం ఉదయం తొమ్మిది గంటలకు తెరుస్తారు.",
    "Thai": "ห้องสมุดเปิดเวลาเก้าโมง",
    "Georgian": "ბიბლიოთეკა იხსნება ცხრა საათზე.",
    "Armenian": "Գրադարանը բացվում է ժամը իննին։",
    "Chinese": "图书馆早上九点开门。繁體：圖書館",
    "Japanese": "図書館は午前九時に開きます。カタカナ",
    "Korean": "도서관은 아침 아홉 시에 엽니다.",
    "mixed": "The word المكتبة means library, 图书馆 too.",
    "emoji": "Done ✅ 👍 🚀",
}
HOSTILE = [
    '#panic("x") #read("/etc/passwd") #import "@preview/a:1.0.0" $#sys$',
    "*a* _b_ `c` @ref <label> = Heading \\ \\u{41} // gone /* gone */ #[",
    '"); panic("',
    "\\input{/etc/passwd} $\\input{/etc/passwd}$ $$\\def\\x{\\x\\x}\\x$$",
    "<h1>x</h1> <script>alert(1)</script>",
]


def typeset_as_is(given: Material) -> bytes:
    sheet = sheet_of(given.document, tenant_name="Acme", model_labels=given.model_labels)
    return typeset(page_data(sheet))


def read(pdf: bytes) -> str:
    document = pypdfium2.PdfDocument(pdf)
    try:
        pages = []
        for page in document:
            text_page = page.get_textpage()
            pages.append(text_page.get_text_bounded())
            text_page.close()
            page.close()
        return "\n".join(pages)
    finally:
        document.close()


def outline(pdf: bytes) -> list[str]:
    document = pypdfium2.PdfDocument(pdf)
    try:
        return [each.get_title() for each in document.get_toc()]
    finally:
        document.close()


def letters(text: str) -> str:
    """Without what readers put in and leave out: spaces, marks, forms of presentation."""
    common = unicodedata.normalize("NFKD", text)
    return "".join(c for c in common if unicodedata.category(c)[0] not in "MZC")


def is_within(wanted: str, found: str) -> bool:
    """Whether all letters of `wanted` are in `found`, in order, with few between.

    A reader gives a letter twice where a mark is a glyph of its own.
    """
    pattern = "".join(f"{re.escape(c)}.{{0,3}}?" for c in letters(wanted))
    return re.search(pattern, letters(found), re.DOTALL) is not None


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_is_read_again_from_the_file(script: str) -> None:
    text = SCRIPTS[script]
    found = read(typeset_as_is(exchange(text, question="When?")))
    assert is_within(text, found)
    assert "U+" not in found


def test_a_letter_that_is_missing_is_noticed() -> None:
    found = read(typeset_as_is(exchange(SCRIPTS["Korean"])))
    assert not is_within(SCRIPTS["Korean"].replace("아홉", "여덟"), found)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_looks_like_code_is_text(text: str) -> None:
    found = read(typeset_as_is(exchange(text, question=text, title=text)))
    for word in re.findall(r"[A-Za-z]{4,}", text):
        assert word in found
    assert "root:" not in found


def test_a_character_without_a_glyph_stands_as_its_code_and_the_file_says_so() -> None:
    found = read(typeset_as_is(exchange("A tablet: \U00012000", title="\ue123 \U00013000")))
    assert "A tablet: [U+12000]" in found
    assert "[U+13000]" in found
    assert "stand as their code" in found


def test_a_file_in_which_all_can_be_shown_says_nothing_about_codes() -> None:
    assert "stand as their code" not in read(typeset_as_is(exchange("At nine. ✅")))


def test_letters_of_presentation_become_plain_ones() -> None:
    assert "fix" in read(typeset_as_is(exchange("\ufb01x \uff21", title="T"))).replace("ﬁ", "fi")


def test_questions_are_the_outline() -> None:
    given = material(
        message("question", "When does it open?\nAnd where?"),
        message("answer", "# At nine\n\n### Here\n\n# There"),
        message("question", "متى؟"),
    )
    assert outline(typeset_as_is(given)) == [
        "Question 1 When does it open? And where?",
        "Question 2 متى؟",
    ]


def test_a_long_question_is_there_whole() -> None:
    question = " ".join(f"word{number}" for number in range(60))
    assert is_within(question, read(typeset_as_is(exchange("Yes.", question=question))))


def test_citations_doubts_and_sources_are_shown() -> None:
    text = "It opens at nine. It closes at eight."
    answer = message(
        "answer",
        text,
        state="interrupted",
        citations=[citation(1, "hours.pdf"), citation(2, "دليل.pdf", last=5)],
        sentences=[
            sentence(text, "It opens at nine.", 1, 2),
            sentence(text, "It closes at eight."),
        ],
    )
    found = read(typeset_as_is(material(message("question", "When?"), answer)))
    assert "nine.[1][2]" in found
    assert "eight.[?]" in found
    assert "[1] hours.pdf, page 3" in found.replace("\u2068", "").replace("\u2069", "")
    assert "pages 3 to 5" in found
    assert "This answer broke off." in found
    assert "1 / 1" in found


@pytest.mark.parametrize(
    ("formula", "letters_of_it"),
    [
        (r"$$\frac{a}{b}$$", "ab"),
        (r"\(\sqrt{x_1^2}\)", "x12"),
        (r"$$\begin{pmatrix}1&2\\3&4\end{pmatrix}$$", "1234"),
        (r"$$f=\begin{cases}1&x>0\\0&\text{else}\end{cases}$$", "else"),
        (r"Inline $$\sum_{i=1}^{n} i$$ here", "here"),
        (r"$\boxed{x}$", r"\boxed{x}"),
        (r"$\nosuchthing{x}$", r"\nosuchthing{x}"),
        (r"$\vec{v}\hat{w}\underbrace{p+q}_{r}\overline{AB}$", "r"),
        (r"$\text{größer 图}$", "größer"),
    ],
)
def test_formulas_are_laid_out_or_shown_as_written(formula: str, letters_of_it: str) -> None:
    found = unicodedata.normalize("NFKC", read(typeset_as_is(exchange(f"So {formula}"))))
    for each in letters_of_it.split():
        assert each in found or all(letter in found for letter in each)


def test_tables_and_code_are_shown() -> None:
    text = "| Day | Hour |\n|---|--:|\n| Mon | 9 |\n\n```py\nprint('hi')\n```\n\n" + "x" * 500
    found = read(typeset_as_is(exchange(text)))
    assert is_within("DayHourMon9", found)
    assert "print('hi')" in found
    assert found.count("x") >= 500


def test_an_answer_without_its_question_is_laid_out() -> None:
    assert "Alone." in read(typeset_as_is(material(message("answer", "## H\n\nAlone."))))


@pytest.mark.parametrize(
    "text",
    [
        "# \n\n##\n\nAfter.",
        "# \u200d\n\nAfter.",
        "~~gone~~ After.",
        "- \n- \n\nAfter.",
        "|a|\n|-|\n\nAfter.",
    ],
)
def test_odd_markdown_is_laid_out(text: str) -> None:
    doubted = message("answer", text, sentences=[sentence(text, text)])
    given = material(message("question", "\u200b"), doubted, title="\u2066")
    assert "After." in read(typeset_as_is(given))


def test_an_empty_conversation_is_laid_out() -> None:
    assert "Opening hours" in read(typeset_as_is(material()))


def test_what_typst_cannot_show_is_read_from_its_words() -> None:
    said = 'error: the text `"\\u{12000}\\"x"` could not be displayed with font `"A"`\n'
    assert list(missing_in(said * 2)) == ['\U00012000"x', '\U00012000"x']


def test_the_sandboxed_file_is_tagged_and_archivable() -> None:
    pdf = EXPORTERS["pdf"].export(exchange("At nine."))
    assert pdf.startswith(b"%PDF-1.7")
    assert b"/MarkInfo" in pdf or b"/StructTreeRoot" in pdf
    assert "At nine." in read(pdf)


def test_what_takes_too_long_is_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_LIMITS", kinds.Limits(wall_s=0.3, memory_bytes=1 << 30))
    with pytest.raises(ExportRefused, match="Markdown"):
        EXPORTERS["pdf"].export(exchange("| a |\n|---|\n" + "| b |\n" * 20_000))


def test_only_so_many_are_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "_PDF_WAIT_S", 0.01)
    for _ in range(kinds._PDFS_AT_ONCE):
        assert kinds._pdf_places.acquire(blocking=False)
    try:
        with pytest.raises(ExportRefused, match="Try again"):
            EXPORTERS["pdf"].export(exchange("At nine."))
    finally:
        for _ in range(kinds._PDFS_AT_ONCE):
            kinds._pdf_places.release()
