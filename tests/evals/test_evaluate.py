"""`manage.py evaluate`: any BEIR folder through the product's own pipeline."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from apps.documents.ingestion import ingest_next
from apps.documents.models import Collection, Document
from apps.documents.services import create_collection
from apps.evals import beir_loading, running
from apps.evals.beir import Folder, path_of
from apps.evals.gates import parse_gate
from apps.evals.models import EvalRun, Label, LabelledQuestion, LabelledSet, RunQuestion
from apps.inference import errors
from apps.retrieval.indexing import index_next
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from apps.tenants.services import create_tenant
from tests.retrieval.conftest import embedder, reranker  # noqa: F401 - fixtures
from tests.retrieval.corpus import WordEmbedder

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("embedder", "reranker")]
PASSAGES = {
    "p1": ("Parking", "Cars may be left behind the canteen. Ask the porter for a badge."),
    "p2": ("Holidays", "There are thirty days of leave a year; ask your manager for them."),
    "p3": ("", "Laptops are handed out on the first day, by the desk at the entrance."),
    "p4": ("Pension", "The pension fund takes eight per cent of the wage each month."),
}
QUESTIONS = {
    "q1": "Where may cars be left?",
    "q2": "How many days of leave are there?",
    "q3": "Who hands out laptops?",
}
JUDGED = {"q1": {"p1": 1}, "q2": {"p2": 2}, "q3": {"p3": 1, "p4": 0}}


@pytest.fixture(autouse=True)
def _worker(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker does, while the command waits for it."""
    settings.MEDIA_ROOT = tmp_path / "media"

    def work(seconds: float) -> None:
        ingest_next()
        index_next()

    monkeypatch.setattr(beir_loading.time, "sleep", work)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    return lambda **parts: write(tmp_path / "small", **parts)


def write(
    folder: Path,
    *,
    passages: dict[str, tuple[str, str]] | None = None,
    questions: dict[str, str] | None = None,
    judged: dict[str, dict[str, int]] | None = None,
) -> Path:
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    rows = [
        {"_id": id, "title": title, "text": text}
        for id, (title, text) in (PASSAGES if passages is None else passages).items()
    ]
    asked = [
        {"_id": id, "text": text}
        for id, text in (QUESTIONS if questions is None else questions).items()
    ]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    lines = [
        f"{question}\t{passage}\t{grade}\n"
        for question, grades in (JUDGED if judged is None else judged).items()
        for passage, grade in grades.items()
    ]
    head = "query-id\tcorpus-id\tscore\n"
    (folder / "qrels" / "test.tsv").write_text("".join([head, *lines]))
    return folder


def evaluate(*arguments: object) -> tuple[int, str, str]:
    """Exit status, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    try:
        call_command("evaluate", *map(str, arguments), stdout=out, stderr=err)
    except CommandError as exc:
        return exc.returncode, out.getvalue(), err.getvalue() + str(exc)
    return 0, out.getvalue(), err.getvalue()


def report(*arguments: object, code: int = 0) -> dict[str, Any]:
    status, out, err = evaluate(*arguments, "--json")
    assert status == code, err
    found: dict[str, Any] = json.loads(out)
    return found


def in_tenant(slug: str = "evaluation") -> Tenant:
    return Tenant.objects.get(slug=slug)


def documents() -> dict[str, Document]:
    tenant = in_tenant()
    with tenant_scope(tenant.id):
        return {each.path: each for each in Document.objects.filter(tenant=tenant)}


class TestRuns:
    def test_passages_become_documents_and_each_stage_is_measured(
        self, make: Callable[..., Path]
    ) -> None:
        found = report(make())
        assert (found["state"], found["questions"]) == ("done", 3)
        assert found["stages"]["final"]["success@1"] == 1
        assert set(found["stages"]) == {"bm25", "vectors", "fused", "reranked", "final"}
        assert (found["corpus"]["sent"], found["corpus"]["failed"]) == (4, {})
        assert set(documents()) == {"p1.md", "p2.md", "p3.md", "p4.md"}
        assert {each.state for each in documents().values()} == {"ready"}

    def test_titles_are_headings_and_texts_stay_as_they_are(
        self, make: Callable[..., Path]
    ) -> None:
        report(make())
        from apps.documents.models import Chunk

        tenant = in_tenant()
        with tenant_scope(tenant.id):
            chunk = Chunk.objects.get(document=documents()["p1.md"])
        assert chunk.heading_path == "Parking"
        assert PASSAGES["p1"][1] in chunk.text

    def test_a_table_is_printed_for_people(self, make: Callable[..., Path]) -> None:
        code, out, _ = evaluate(make())
        assert code == 0
        assert "ndcg@10" in out
        assert "reranked" in out
        assert "95 % interval" in out
        assert "4 passages (4 sent, 0 unchanged)" in out

    def test_an_unchanged_folder_is_not_ingested_again(self, make: Callable[..., Path]) -> None:
        report(make())
        before = {path: each.id for path, each in documents().items()}
        again = report(make())
        assert (again["corpus"]["sent"], again["corpus"]["unchanged"]) == (0, 4)
        assert {path: each.id for path, each in documents().items()} == before
        assert EvalRun.objects.count() == 2

    @pytest.mark.slow
    def test_fresh_ingests_all_of_it(self, make: Callable[..., Path]) -> None:
        report(make())
        before = {each.id for each in documents().values()}
        assert report(make(), "--fresh")["corpus"]["sent"] == 4
        assert not before & {each.id for each in documents().values()}

    @pytest.mark.slow
    def test_a_changed_corpus_is_followed(self, make: Callable[..., Path]) -> None:
        report(make())
        changed = {
            **{id: PASSAGES[id] for id in ("p1", "p2")},
            "p3": ("", "Laptops are handed out by nobody at all any more."),
            "p5": ("New", "Something else."),
        }
        found = report(make(passages=changed))
        assert (found["corpus"]["sent"], found["corpus"]["unchanged"]) == (2, 2)
        assert found["corpus"]["removed"] == 2
        assert set(documents()) == {"p1.md", "p2.md", "p3.md", "p5.md"}
        assert found["stages"]["final"]["success@1"] == 1

    @pytest.mark.slow
    def test_texts_that_change_places_are_followed_too(self, make: Callable[..., Path]) -> None:
        report(make())
        swapped = PASSAGES | {"p3": PASSAGES["p4"], "p4": PASSAGES["p3"]}
        found = report(make(passages=swapped, judged=JUDGED | {"q3": {"p4": 1}}))
        assert found["corpus"]["failed"] == {}
        assert found["stages"]["final"]["success@1"] == 1

    def test_questions_that_change_are_followed_and_keep_earlier_results(
        self, make: Callable[..., Path]
    ) -> None:
        report(make())
        report(make(questions={"q1": QUESTIONS["q1"], "q2": "Who gives leave?"}))
        with tenant_scope(in_tenant().id):
            texts = set(LabelledQuestion.objects.values_list("text", flat=True))
            first, second = EvalRun.objects.order_by("created_at")
            kept = RunQuestion.objects.filter(run=first).count()
        assert texts == {QUESTIONS["q1"], "Who gives leave?"}
        assert (kept, second.total) == (2, 2)

    def test_the_set_is_of_the_commands_own_tenant_and_not_nightly(
        self, make: Callable[..., Path]
    ) -> None:
        report(make())
        with tenant_scope(in_tenant().id):
            labelled_set = LabelledSet.objects.get()
            grades = sorted(Label.objects.values_list("grade", flat=True))
        assert (labelled_set.name, labelled_set.origin) == ("small", "command")
        assert not labelled_set.nightly
        assert grades == [1, 1, 2]

    @pytest.mark.slow
    def test_a_sample_is_the_same_with_the_same_seed(self, make: Callable[..., Path]) -> None:
        folder = make()
        first, again = (report(folder, "--sample=2", "--seed=7") for _ in range(2))
        assert first["questions"] == 2
        assert first["stages"] == again["stages"]
        assert first["seed"] == 7

    def test_stages_can_be_chosen(
        self,
        make: Callable[..., Path],
        embedder: WordEmbedder,  # noqa: F811
    ) -> None:
        report(make())
        asked = len(embedder.batches)
        assert set(report(make(), "--stages=bm25")["stages"]) == {"bm25"}
        assert len(embedder.batches) == asked
        assert set(report(make(), "--stages=vectors, fused")["stages"]) == {"vectors", "fused"}

    def test_the_first_rows_stand_for_a_part(self, make: Callable[..., Path]) -> None:
        found = report(make(), "--first=2")
        assert (found["corpus"]["total"], found["questions"]) == (2, 2)
        assert found["collection"] == "small (first 2)"
        assert found["labels"]["unknown_passages"] == 0

    def test_gates_are_kept(self, make: Callable[..., Path]) -> None:
        folder = make()
        assert evaluate(folder, "--min=ndcg@10=.9", "--min=bm25:recall@5=.5")[0] == 0
        judged = JUDGED | {"q1": {"p4": 1}}
        code, out, err = evaluate(make(judged=judged), "--min=success@1=.99", "--json")
        assert code == 1
        assert "final success@1 is 0.667, less than 0.99" in err
        [gate] = json.loads(out)["gates"]
        assert (gate["met"], gate["stage"]) == (False, "final")

    def test_a_gate_on_what_was_not_measured_is_missed(self, make: Callable[..., Path]) -> None:
        code, _, err = evaluate(make(), "--stages=bm25", "--min=final:ndcg@10=.1")
        assert code == 1
        assert "not measured" in err

    def test_an_embedder_that_is_down_fails_the_run(
        self,
        make: Callable[..., Path],
        embedder: WordEmbedder,  # noqa: F811
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(running, "PAUSE_S", 0.0)
        folder = make()
        report(folder)
        embedder.failures = [errors.Unavailable("down")] * 1000
        code, _, err = evaluate(folder)
        assert code == 1
        assert "embedder_down" in err


class TestOddFolders:
    @pytest.mark.slow
    def test_ids_of_any_kind_are_told_apart(self, make: Callable[..., Path]) -> None:
        odd = [
            *("a/b", "a_b", "a%2Fb", "..", "../../etc/passwd", ".", "A", "a", "x" * 500),
            *("x" * 499 + "y", "é", "e\u0301", "con:1", "日本", "a b", "-", "%", "p1.md", "p1"),
        ]
        assert len({path_of(id) for id in odd}) == len(odd)
        passages = {
            id: (f"Number {number}", f"This is about matter{number} only.")
            for number, id in enumerate(odd)
        }
        questions = {f"q{number}": f"What of matter{number}?" for number in range(len(odd))}
        judged = {f"q{number}": {id: 1} for number, id in enumerate(odd)}
        # Ids are trimmed by the tabs' reader, and only there.
        found = report(make(passages=passages, questions=questions, judged=judged))
        assert (found["corpus"]["sent"], found["corpus"]["failed"]) == (len(odd), {})
        assert found["labels"]["unknown_passages"] == 0
        assert found["stages"]["bm25"]["success@1"] == 1

    def test_empty_and_repeated_passages_are_counted(self, make: Callable[..., Path]) -> None:
        passages = PASSAGES | {"p8": ("", " "), "p9": PASSAGES["p1"]}
        found = report(make(passages=passages, judged=JUDGED | {"q1": {"p9": 1}}))
        assert (found["corpus"]["empty"], found["corpus"]["same_text"]) == (1, 1)
        assert found["corpus"]["total"] == 6
        assert found["stages"]["final"]["success@1"] == 1

    def test_ids_given_twice_count_once(self, make: Callable[..., Path]) -> None:
        folder = make()
        with (folder / "corpus.jsonl").open("a") as file:
            file.write('{"_id": "p1", "text": "Another text."}\n')
        with (folder / "queries.jsonl").open("a") as file:
            file.write('{"_id": "q1", "text": "Another question?"}\n')
        found = report(folder)
        assert found["corpus"]["sent"] == 4
        assert found["odd"] == {"passage ids given twice": 1, "question ids given twice": 1}

    def test_judgements_of_what_is_not_there_are_counted(self, make: Callable[..., Path]) -> None:
        judged = JUDGED | {"q9": {"p1": 1}, "q3": {"p3": 1, "gone": 1}, "q2": {"gone": 1}}
        found = report(make(judged=judged))
        labels = found["labels"]
        assert (labels["unknown_questions"], labels["unknown_passages"]) == (1, 2)
        assert (labels["without_passages"], found["questions"]) == (1, 2)

    def test_questions_without_an_answer_are_told_from_those_of_another_split(
        self, make: Callable[..., Path]
    ) -> None:
        folder = make()
        with (folder / "queries.jsonl").open("a") as file:
            file.write('{"_id": "u", "text": "Zinc?", "metadata": {"is_impossible": true}}\n')
            file.write('{"_id": "v", "text": "Other?", "metadata": {}}\n')
        found = report(folder)
        assert (found["questions"], found["unanswerable"]) == (3, 1)
        assert found["labels"]["unlabelled"] == 1
        assert found["refusals"]

    def test_hostile_texts_are_taken_as_they_are(self, make: Callable[..., Path]) -> None:
        passages = PASSAGES | {
            "h1": ("# Head\nline", "NUL \0 and half a pair \ud800 and <script>alert(1)</script>"),
            "h2": ("", "# heading\n```\nnever closed\n---\n%PDF-1.7 {{ x }} \u202e"),
        }
        found = report(make(passages=passages))
        assert (found["corpus"]["sent"], found["corpus"]["failed"]) == (6, {})

    @pytest.mark.parametrize(
        ("file", "line", "words"),
        [
            ("corpus.jsonl", "{not json", "corpus.jsonl, line 5: not JSON"),
            ("corpus.jsonl", "[1]", "corpus.jsonl, line 5: JSON, but not an object"),
            ("corpus.jsonl", '{"text": "x"}', "line 5: “_id” is missing"),
            ("corpus.jsonl", '{"_id": "", "text": "x"}', "line 5: “_id” is missing"),
            ("corpus.jsonl", '{"_id": "z", "text": 5}', "line 5: “text” is not text"),
            ("corpus.jsonl", "[" * 100_000, "line 5: not JSON"),
            ("queries.jsonl", '{"_id": {}, "text": "x"}', "queries.jsonl, line 4: “_id”"),
            ("qrels/test.tsv", "q1\tp1", "test.tsv, line 6: not query-id"),
            ("qrels/test.tsv", "q1\tp1\tmuch", "test.tsv, line 6: not query-id"),
            ("qrels/test.tsv", "q1\tp1\tinf", "test.tsv, line 6: not query-id"),
        ],
    )
    def test_a_broken_line_is_named(
        self, make: Callable[..., Path], file: str, line: str, words: str
    ) -> None:
        folder = make()
        with (folder / file).open("a") as out:
            out.write(line + "\n")
        code, out_text, err = evaluate(folder, "--json")
        assert (code, out_text) == (2, "")
        assert words in err
        if file == "corpus.jsonl":
            assert not documents(), "nothing was sent"

    def test_bytes_that_are_no_text_are_refused(self, make: Callable[..., Path]) -> None:
        folder = make()
        (folder / "corpus.jsonl").write_bytes(b"\xff\xfe\x00\x80" * 10)
        assert evaluate(folder)[0] == 2

    def test_other_ways_to_write_the_files_are_read(self, make: Callable[..., Path]) -> None:
        folder = make()
        corpus = (folder / "corpus.jsonl").read_text().replace("\n", "\r\n\r\n")
        (folder / "corpus.jsonl").write_bytes(b"\xef\xbb\xbf" + corpus.encode())
        (folder / "qrels" / "test.tsv").write_text("q1 0 p1 1\nq2 0 p2 2.0\nq3 0 p3 -1\n")
        found = report(folder)
        assert (found["corpus"]["sent"], found["questions"]) == (4, 2)

    def test_numbers_are_ids_too(self, make: Callable[..., Path]) -> None:
        folder = make(passages={}, questions={}, judged={"7": {"31": 1}})
        (folder / "corpus.jsonl").write_text('{"_id": 31, "text": "Cars may be left here."}\n')
        (folder / "queries.jsonl").write_text('{"_id": 7, "text": "Where are cars left?"}\n')
        assert report(folder)["stages"]["final"]["success@1"] == 1

    @pytest.mark.parametrize("missing", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"])
    def test_a_missing_file_is_named(self, make: Callable[..., Path], missing: str) -> None:
        folder = make()
        (folder / missing).unlink()
        code, _, err = evaluate(folder)
        assert code == 2
        assert f"{missing} is not there" in err
        assert not Tenant.objects.exists()

    def test_another_split_is_offered(self, make: Callable[..., Path]) -> None:
        folder = make()
        (folder / "qrels" / "test.tsv").rename(folder / "qrels" / "dev.tsv")
        _, _, err = evaluate(folder)
        assert "Splits there: dev (--split)" in err
        assert report(folder, "--split=dev")["questions"] == 3

    def test_a_folder_without_a_usable_question_is_refused(self, make: Callable[..., Path]) -> None:
        code, _, err = evaluate(make(judged={}))
        assert code == 2
        assert "no question that can be measured" in err

    def test_an_empty_corpus_finds_nothing(self, make: Callable[..., Path]) -> None:
        code, _, _ = evaluate(make(passages={}))
        assert code == 2


class TestUse:
    @pytest.mark.parametrize(
        "arguments",
        [
            ["--sample=0"],
            ["--first=-1"],
            ["--seed=-1"],
            ["--stages=bm25,magic"],
            ["--min=ndcg@10"],
            ["--min=ndcg@11=.5"],
            ["--min=magic:ndcg@10=.5"],
            ["--min=ndcg@10=2"],
            ["--min=ndcg@10=nan"],
            ["--split=../../secret"],
            ["--tenant=Not A Slug"],
        ],
    )
    def test_wrong_use_is_refused_before_anything_is_done(
        self, make: Callable[..., Path], arguments: list[str]
    ) -> None:
        code, out, err = evaluate(make(), *arguments)
        assert (code, out) == (2, "")
        assert err
        assert not Document.objects.exists()

    def test_a_folder_that_is_not_there_is_refused(self, tmp_path: Path) -> None:
        assert evaluate(tmp_path / "nowhere")[0] == 2

    def test_a_collection_that_somebody_made_is_not_touched(
        self, make: Callable[..., Path]
    ) -> None:
        tenant = create_tenant(slug="acme", name="Acme")
        theirs = create_collection(tenant=tenant, user=None, name="small")
        code, _, err = evaluate(make(), "--tenant=acme")
        assert code == 2
        assert "did not make" in err
        report(make(), "--tenant=acme", "--collection=BEIR small")
        with tenant_scope(tenant.id):
            assert Collection.objects.filter(id=theirs.id).exists()
            assert not Document.objects.filter(collection=theirs).exists()

    def test_a_set_that_somebody_made_is_not_touched(self, make: Callable[..., Path]) -> None:
        tenant = create_tenant(slug="acme", name="Acme")
        theirs = create_collection(tenant=tenant, user=None, name="Handbook")
        with tenant_scope(tenant.id):
            LabelledSet.objects.create(
                tenant=tenant, collection=theirs, name="small", origin="upload"
            )
        code, _, err = evaluate(make(), "--tenant=acme")
        assert code == 2
        assert "--collection" in err

    def test_gates_are_read(self) -> None:
        gate = parse_gate("bm25:NDCG@10=.73")
        assert (gate.stage, gate.metric, gate.at_least) == ("bm25", "ndcg@10", 0.73)


def test_a_large_corpus_is_read_a_line_at_a_time(tmp_path: Path) -> None:
    import tracemalloc

    folder = write(tmp_path / "large", passages={})
    line = json.dumps({"_id": "{}", "text": "word " * 2000})
    with (folder / "corpus.jsonl").open("w") as file:
        for number in range(3000):
            file.write(line.replace("{}", str(number)) + "\n")
    tracemalloc.start()
    assert sum(1 for _ in Folder(folder).passages()) == 3000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3_000_000, "of 30 MB"


def test_ids_become_names_that_are_kept_as_they_are() -> None:
    from apps.documents.files import clean_path

    ids = ["p1", "a/b", "..", "x" * 500, "é", "a b", " a", "a.", "%", uuid.uuid4().hex, "*?<>|"]
    for id in ids:
        assert clean_path(f"{path_of(id)}.md") == f"{path_of(id)}.md"


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_two_commands_at_once_write_one_set(make: Callable[..., Path]) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from django.db import connection

    folder = make()
    report(folder)
    with tenant_scope(in_tenant().id):
        Label.objects.all().delete()

    def run() -> int:
        try:
            return evaluate(folder, "--json")[0]
        finally:
            connection.close()

    with ThreadPoolExecutor(3) as pool:
        assert [each.result() for each in [pool.submit(run) for _ in range(3)]] == [0, 0, 0]
    with tenant_scope(in_tenant().id):
        assert (LabelledSet.objects.count(), Label.objects.count()) == (1, 3)
