"""Which parts are started, given what the environment names."""

from __future__ import annotations

import urllib.parse
from pathlib import Path

import pytest

from ragsite.stack.catalogue import EVERYTHING, http_answers, plan_stack
from ragsite.stack.redis import Redis
from ragsite.stack.state import StateDir


def names(tmp_path: Path, **environment: str) -> list[str]:
    return [part.name for part in plan_stack(StateDir(tmp_path), environment).parts]


def test_everything_is_started_where_nothing_is_named(tmp_path: Path) -> None:
    assert names(tmp_path) == list(EVERYTHING)


@pytest.mark.parametrize(
    ("variable", "part"),
    [
        ("DATABASE_URL", "postgres"),
        ("DATABASE_URL_FILE", "postgres"),
        ("REDIS_URL", "redis"),
        ("TEI_URL", "encoder"),
        ("TGI_URL", "engine"),
        ("OPENAI_URL", "engine"),
    ],
)
def test_what_the_environment_names_is_not_started(
    tmp_path: Path, variable: str, part: str
) -> None:
    assert set(names(tmp_path, **{variable: "set"})) == set(EVERYTHING) - {part}


def test_no_encoder_is_started_for_an_embedder_in_process(tmp_path: Path) -> None:
    assert "encoder" not in names(tmp_path, EMBEDDER="sentence-transformers")


def test_parts_come_after_what_they_need(tmp_path: Path) -> None:
    seen: set[str] = set()
    for part in plan_stack(StateDir(tmp_path), {}).parts:
        assert set(part.needs) <= seen, part.name
        seen.add(part.name)


def test_keys_are_new_for_each_stack_and_reach_no_command_line(tmp_path: Path) -> None:
    one, other = (plan_stack(StateDir(tmp_path), {}) for _ in range(2))
    for variable in ("TEI_API_KEY", "OPENAI_API_KEY"):
        key = one.environment[variable]
        assert len(key) >= 32
        assert key != other.environment[variable]
        assert not [part for part in one.parts if key in " ".join(part.command)]


def test_the_encoder_and_the_engine_are_not_told_of_the_database(tmp_path: Path) -> None:
    plan = plan_stack(StateDir(tmp_path), {})
    database = plan.environment["DATABASE_URL"]
    for part in plan.parts:
        if part.name in ("encoder", "engine"):
            assert part.env is not None
            assert database not in part.env.values()


def test_redis_is_ready_only_for_the_password_it_was_given(tmp_path: Path) -> None:
    server = Redis(log=tmp_path / "redis.log", run_dir=tmp_path)
    server.start()
    try:
        assert server.answers()
        assert urllib.parse.urlsplit(server.url).password == server.password
        server.password = "another"
        assert not server.answers()
    finally:
        server.stop()


def test_a_port_where_nobody_listens_is_not_ready() -> None:
    assert not http_answers("http://127.0.0.1:1/health")
