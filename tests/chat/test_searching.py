"""Search in one's own history: what is found, how it is marked, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import psycopg
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.chat.folding import fold, fold_with_places
from apps.chat.models import Conversation, Message, MessageRole
from apps.chat.selectors.searching import (
    RESULTS,
    Found,
    Piece,
    SearchResults,
    mark,
    search_conversations,
    statement,
    words_of,
)
from apps.tenants.access import Access
from apps.tenants.scope import tenant_scope
from ragsite.stack.postgres import SUPERUSER
from tests import parts
from tests.cast import Cast, signed_in
from tests.chat.test_conversations import HOSTILE, access_of, converse
from tests.chat.test_views import address

pytestmark = pytest.mark.django_db

# What is stored, and what finds it.
ALIKE = [
    ("Straße", "strasse"),
    ("ÉCOLE d'été", "ecole"),
    ("naïve", "NAÏVE"),
    ("e\u0301le\u0300ve", "élève"),
    ("ΟΔΟΣ", "οδος"),
    ("οδός", "ΟΔΟΣ"),
    ("Ёлка", "елка"),
    ("İstanbul", "istanbul"),
    ("Łódź", "lodz"),
    ("Smørrebrød", "smorrebrod"),
    ("سَلَامٌ عَلَيْكُم", "سلام"),
    ("مدرسة", "مدرسه"),
    ("أحمد", "احمد"),
    ("ﷲ", "الله"),
    ("שָׁלוֹם", "שלום"),
    ("ＡＢＣ１２３", "abc123"),
    ("ﬁnance", "finance"),
    ("休暇は何日ですか", "休暇"),
    ("ｶﾞｲﾄﾞ", "ガイド"),
    ("휴가는 며칠인가요", "휴가"),
    ("छुट्टी", "छुट्टी"),
    ("co\u00adoperate", "cooperate"),
]


@pytest.fixture
def bob(cast: Cast) -> Access:
    return access_of(cast.bob, cast.acme)


def say(conversation: Conversation, *texts: str) -> list[Message]:
    with tenant_scope(conversation.tenant_id):
        return [
            Message.objects.create(
                tenant=conversation.tenant,
                conversation=conversation,
                role=(MessageRole.ANSWER if number % 2 else MessageRole.QUESTION),
                text=text,
            )
            for number, text in enumerate(texts)
        ]


def search(access: Access, query: str) -> SearchResults:
    with tenant_scope(access.tenant.id):
        return search_conversations(access, query)


def found_titles(access: Access, query: str) -> list[str]:
    return [each.conversation.title for each in search(access, query).found]


def hits(pieces: Sequence[Piece]) -> list[str]:
    return [piece.text for piece in pieces if piece.is_hit]


def only(results: SearchResults) -> Found:
    (found,) = results.found
    return found


@pytest.mark.parametrize(("text", "query"), ALIKE)
def test_the_database_folds_as_the_site_does(text: str, query: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT chat_fold(%s)", [text])
        assert cursor.fetchone()[0] == fold(text)
    assert fold(query) in fold(text)


@pytest.mark.parametrize(("text", "query"), ALIKE)
def test_any_language_is_found_and_marked(cast: Cast, bob: Access, text: str, query: str) -> None:
    say(converse(cast.acme, cast.bob, "about"), f"before {text} after")
    (hit,) = hits(only(search(bob, query)).snippet)
    assert fold(query) in fold(hit)
    assert hit in text


def test_titles_questions_and_answers_are_searched(cast: Cast, bob: Access) -> None:
    titled = converse(cast.acme, cast.bob, "Parental leave")
    asked = converse(cast.acme, cast.bob, "a")
    say(asked, "What about parental time?")
    answered = converse(cast.acme, cast.bob, "b")
    say(answered, "How?", "Ask for **parental** time [1].")
    assert set(found_titles(bob, "parental")) == {titled.title, "a", "b"}
    by_title = {each.conversation.title: each for each in search(bob, "parental").found}
    assert by_title["Parental leave"].message is None
    assert hits(by_title["Parental leave"].title) == ["Parental"]
    message = by_title["b"].message
    assert message is not None
    assert message.role == MessageRole.ANSWER
    assert "".join(piece.text for piece in by_title["b"].snippet) == "Ask for parental time."


def test_all_words_have_to_occur_anywhere_in_the_conversation(cast: Cast, bob: Access) -> None:
    made = converse(cast.acme, cast.bob, "Canteen")
    say(made, "When is lunch?", "At noon.", "And dinner at noon?", "At seven.")
    assert found_titles(bob, "noon canteen") == ["Canteen"]
    assert found_titles(bob, "lunch seven") == ["Canteen"]
    assert found_titles(bob, "noon breakfast") == []
    # The message with most of the words is the one to jump to.
    message = only(search(bob, "noon dinner canteen")).message
    assert message is not None
    assert message.text == "And dinner at noon?"


def test_those_with_all_words_in_the_title_come_first_then_the_latest(
    cast: Cast, bob: Access
) -> None:
    say(converse(cast.acme, cast.bob, "old", ago=timedelta(days=2)), "leave")
    say(converse(cast.acme, cast.bob, "new"), "leave")
    converse(cast.acme, cast.bob, "Leave", ago=timedelta(days=9))
    assert found_titles(bob, "leave") == ["Leave", "new", "old"]


def test_archived_ones_are_found_and_deleted_ones_are_not(cast: Cast, bob: Access) -> None:
    now = converse(cast.acme, cast.bob).updated_at
    converse(cast.acme, cast.bob, "Leave, archived", archived_at=now)
    converse(cast.acme, cast.bob, "Leave, deleted", deleted_at=now)
    assert set(found_titles(bob, "leave")) == {"Leave", "Leave, archived"}


def test_nobody_elses_are_found(cast: Cast, bob: Access) -> None:
    for user, tenant in ((cast.alice, cast.acme), (cast.mallory, cast.rival)):
        say(converse(tenant, user, "Leave"), "leave")
    assert found_titles(bob, "leave") == []


@pytest.mark.parametrize("query", ["", "   ", "\x00", "\u200b\u0301", "\n\t"])
def test_nothing_to_search_for_finds_nothing(cast: Cast, bob: Access, query: str) -> None:
    converse(cast.acme, cast.bob)
    assert search(bob, query) == SearchResults((), has_more=False)
    page = signed_in(cast.bob).get(address("search"), {"q": query}).content.decode()
    assert "Latest conversations" in page


@pytest.mark.parametrize(
    "query",
    ["%", "_", "\\", ".*", "(", "[a-", "'", '"', "%s", "%(word0)s", "{}", "100%", "a_b", HOSTILE],
)
def test_signs_are_signs(cast: Cast, bob: Access, query: str) -> None:
    say(converse(cast.acme, cast.bob, "plain"), "leave", "nothing of that kind ax b")
    assert found_titles(bob, query) == []
    say(converse(cast.acme, cast.bob, "signs"), f"here: {query} there")
    assert found_titles(bob, query) == ["signs"]
    page = signed_in(cast.bob).get(address("search"), {"q": query}).content.decode()
    assert "<script>alert" not in page


@pytest.mark.parametrize(
    "query", ["x" * 10_000, "x " * 5_000, "\ufdfa" * 10_000, "\u0301" * 10_000, "\U0001f600" * 9999]
)
def test_an_endless_query_is_cut(cast: Cast, query: str) -> None:
    assert len(words_of(query)) <= 8
    response = signed_in(cast.bob).get(address("search"), {"q": query})
    assert response.status_code == 200


def test_there_are_so_many_results_and_word_of_more(cast: Cast, bob: Access) -> None:
    for _ in range(RESULTS + 1):
        converse(cast.acme, cast.bob)
    results = search(bob, "leave")
    assert (len(results.found), results.has_more) == (RESULTS, True)
    page = signed_in(cast.bob).get(address("search"), {"q": "leave"}).content.decode()
    assert "There are more." in page
    assert "Nothing found." in (
        signed_in(cast.bob).get(address("search"), {"q": "zebra"}).content.decode()
    )


def test_a_long_answer_is_cut_around_the_hit(cast: Cast, bob: Access) -> None:
    text = " ".join(f"word{number}" for number in range(2000))
    say(converse(cast.acme, cast.bob, "long"), "?", text)
    snippet = only(search(bob, "word1500")).snippet
    whole = "".join(piece.text for piece in snippet)
    assert hits(snippet) == ["word1500"]
    assert whole.startswith("… word")
    assert whole.endswith(" …")
    assert len(whole) < 200


def test_a_result_leads_to_its_message_on_its_branch(cast: Cast) -> None:
    made = converse(cast.acme, cast.bob, "Canteen")
    asked, answered = say(made, "When?", "At noon.")
    page = signed_in(cast.bob).get(address("search"), {"q": "noon"}).content.decode()
    url = address("conversation", made.id)
    assert f"{url}?leaf={answered.id}#answer-{answered.id}" in page
    page = signed_in(cast.bob).get(address("search"), {"q": "when"}).content.decode()
    assert f"{url}?leaf={asked.id}#question-{asked.id}" in page


def test_the_branch_of_a_result_is_shown_and_not_kept(cast: Cast) -> None:
    made = converse(cast.acme, cast.bob, "Canteen")
    first, second = say(made, "When is lunch?"), say(made, "When is dinner?")
    client = signed_in(cast.bob)

    def shown(**asked: str) -> str:
        return client.get(address("conversation", made.id), asked).content.decode()

    assert "When is dinner?" in shown()
    assert "When is lunch?" in shown(leaf=str(first[0].id))
    assert "When is dinner?" not in shown(leaf=str(first[0].id))
    for leaf in (str(second[0].id), str(made.id), "nonsense", "\x00", ""):
        assert "When is dinner?" in shown(leaf=leaf)


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("aaa", ["a"], ["aaa"]),
        ("abc", ["ab", "bc"], ["abc"]),
        ("ab ab", ["ab"], ["ab", "ab"]),
        ("Straße", ["s"], ["S", "ß"]),
        ("e\u0301a", ["e"], ["e\u0301"]),
        ("", ["a"], []),
    ],
)
def test_hits_are_marked_whole_and_once(text: str, words: list[str], expected: list[str]) -> None:
    pieces = mark(text, words)
    assert hits(pieces) == expected
    assert "".join(piece.text for piece in pieces) == text


def test_every_folded_letter_knows_its_place() -> None:
    text = "Straße ﷺ É"
    folded, places = fold_with_places(text)
    assert folded == fold(text)
    assert len(places) == len(folded)
    assert places == sorted(places)
    assert max(places) < len(text)


def test_it_costs_a_few_queries_however_much_is_found(cast: Cast, bob: Access) -> None:
    for number in range(20):
        say(converse(cast.acme, cast.bob, f"Leave {number}"), "leave?", "leave!")
    with tenant_scope(cast.acme.id), CaptureQueriesContext(connection) as queries:
        search_conversations(bob, "leave")
    assert len(queries) == 3


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_it_reads_ones_own_history_and_not_the_tenants(cast: Cast, bob: Access) -> None:
    """Of 20,000 messages of others, none: conversations by person, messages by conversation."""
    with tenant_scope(cast.acme.id):
        made = [
            Conversation(tenant=cast.acme, user=user, title=f"Chat {number}")
            for user, count in ((cast.alice, 2000), (cast.bob, 20))
            for number in range(count)
        ]
        Conversation.objects.bulk_create(made)
        Message.objects.bulk_create(
            Message(tenant=cast.acme, conversation=each, role=MessageRole.QUESTION, text="leave")
            for each in made
            for _ in range(10)
        )
    url = parts.postgres.url(SUPERUSER, parts.DATABASE)
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("ANALYZE chat_conversation, chat_message")
    query, values = statement(bob, ["leave"])
    with tenant_scope(cast.acme.id), connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {query}", values)
        plan = "\n".join(line for (line,) in cursor.fetchall())
    assert "message_thread" in plan
    assert "Seq Scan" not in plan
