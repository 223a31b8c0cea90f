"""What happens inside the sandbox stays there, and ends in time with a clear error."""

from __future__ import annotations

import resource
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from worker.sandbox import (
    Limits,
    SandboxCrashed,
    SandboxError,
    SandboxOutOfMemory,
    SandboxOutputTooLarge,
    SandboxRefused,
    SandboxTimedOut,
    run_sandboxed,
)

MIB = 1024 * 1024
LIMITS = Limits(wall_s=10, memory_bytes=512 * MIB, output_bytes=4 * MIB)


def run(name: str, limits: Limits = LIMITS, **payload: object) -> object:
    return run_sandboxed(f"tests.worker.hostile:{name}", payload, limits=limits)


def test_a_result_comes_back_as_it_was() -> None:
    value = {"text": "naïve 世界", "numbers": [1, 2.5, None], "bytes": b"\x00"}
    assert run("echo", value=value) == value


def test_it_starts_within_half_a_second() -> None:
    start = time.perf_counter()
    run("echo", value=1)
    assert time.perf_counter() - start < 0.5


def test_the_environment_is_empty_of_secrets() -> None:
    inside = run("environment")
    assert isinstance(inside, dict)
    assert not {"DATABASE_URL", "REDIS_URL", "SECRET_KEY"} & set(inside)


def test_django_is_not_loaded_inside() -> None:
    loaded = run("modules")
    assert isinstance(loaded, list)
    assert "django" not in loaded


def test_an_error_with_a_code_keeps_code_and_words() -> None:
    with pytest.raises(SandboxRefused, match="not this one") as caught:
        run("decline")
    assert caught.value.code == "declined"


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("eat_memory", SandboxOutOfMemory),
        ("die", SandboxCrashed),
        ("leave", SandboxCrashed),
        ("flood", SandboxOutputTooLarge),
        ("leak_words", SandboxCrashed),
    ],
)
def test_a_misbehaving_function_ends_in_its_own_error(name: str, error: type[SandboxError]) -> None:
    with pytest.raises(error):
        run(name)


def test_words_of_an_unforeseen_error_do_not_leave_the_sandbox() -> None:
    with pytest.raises(SandboxCrashed) as caught:
        run("leak_words")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["hang", "spin"])
def test_a_hanging_function_is_ended_in_time(name: str) -> None:
    start = time.monotonic()
    with pytest.raises(SandboxTimedOut):
        run(name, Limits(wall_s=1, memory_bytes=512 * MIB))
    assert time.monotonic() - start < 3


def test_its_own_children_are_ended_with_it() -> None:
    with pytest.raises(SandboxTimedOut):
        run("hang_with_child", Limits(wall_s=1, memory_bytes=512 * MIB, children=True))
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    assert "sleep 613" not in listing.stdout


def test_the_network_is_out_of_reach() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert run("reach", port=server.getsockname()[1]) is False


def test_a_tick_may_end_the_run() -> None:
    class Gone(Exception):
        pass

    def tick() -> None:
        raise Gone

    start = time.monotonic()
    with pytest.raises(Gone):
        run_sandboxed("tests.worker.hostile:hang", {}, limits=LIMITS, on_tick=tick)
    assert time.monotonic() - start < 9


@pytest.mark.parametrize(
    ("element", "count"),
    [(b"\x80", 3_900_000), (b"\xa0", 3_900_000), (b"\xdd\x00\x3f\xff\xff", 700_000)],
)
def test_a_small_reply_of_countless_objects_is_not_unpacked(element: bytes, count: int) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(SandboxCrashed):
        run("bomb", element=element, count=count)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024  # KiB


def test_a_refusal_is_words_that_a_database_takes() -> None:
    with pytest.raises(SandboxRefused) as caught:
        run("refuse", code="damaged", message="a\x00b\nc" + "!" * 9999)
    assert str(caught.value).startswith("a b c!!")
    assert len(str(caught.value)) <= 1000
    with pytest.raises(SandboxCrashed):
        run("refuse", code="../x", message="")


@pytest.mark.parametrize(("files", "size"), [(5, MIB), (200, 1)])
def test_a_full_scratch_folder_ends_the_call(files: int, size: int) -> None:
    limits = Limits(wall_s=10, memory_bytes=512 * MIB, scratch_bytes=4 * MIB, scratch_files=100)
    start = time.monotonic()
    with pytest.raises(SandboxOutputTooLarge):
        run("fill_the_disk", limits, files=files, size=size)
    assert time.monotonic() - start < 4


def test_nothing_is_left_of_the_scratch_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    limits = Limits(wall_s=10, memory_bytes=512 * MIB, scratch_files=10_000)
    assert run("nest_folders", limits, depth=1500) == 1500
    assert list(tmp_path.iterdir()) == []
