"""What figures hold for, as servers of each kind tell it, and as people type it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from pytest_django import Settings

from apps.capacity.errors import TargetDown
from apps.capacity.load.types import Target
from apps.capacity.loadtests.conditions import gather_conditions, typed_again
from apps.capacity.loadtests.machine import describe_machine, machine_words

pytestmark = pytest.mark.django_db

LLAMA = {
    "/v1/models": {
        "data": [{"id": "/models/secret-folder/smol.Q4_1.gguf", "owned_by": "llamacpp"}]
    },
    "/props": {
        "build_info": "b6500-abcdef",
        "model_path": "/models/secret-folder/smol.Q4_1.gguf",
        "total_slots": 4,
        "default_generation_settings": {"n_ctx": 2048},
    },
}
VLLM = {
    "/v1/models": {
        "data": [
            {
                "id": "chat",
                "root": "meta-llama/Llama-3.1-8B-Instruct-FP8",
                "owned_by": "vllm",
                "max_model_len": 8192,
            }
        ]
    },
    "/version": {"version": "0.11.2"},
}
SGLANG = {
    "/v1/models": {"data": [{"id": "qwen", "owned_by": "sglang", "max_model_len": 4096}]},
    "/get_server_info": {"version": "0.5", "dtype": "bfloat16", "kv_cache_dtype": "fp8_e5m2"},
}
TGI = {
    "/info": {
        "model_id": "org/model",
        "model_sha": "0123456789abcdef0123",
        "model_dtype": "torch.bfloat16",
        "version": "3.3.6",
        "max_total_tokens": 4096,
    }
}

Serve = Callable[[dict[str, Any]], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """A server with these answers, by path; others are 404. Its address, without /v1."""
    servers: list[ThreadingHTTPServer] = []

    def begin(answers: dict[str, Any]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = self.path in answers
                answer = answers.get(self.path, {"error": {"message": "none"}})
                body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(200 if found else 404)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


def gathered(url: str, kind: str = "openai", **typed: Any) -> dict[str, Any]:
    at = url if kind == "tgi" else f"{url}/v1"
    target = Target(kind=kind, url=at)  # type: ignore[arg-type]
    return gather_conditions(target, typed=typed)


def test_llama_cpp_tells_of_itself_and_no_folder_is_kept(serve: Serve) -> None:
    found = gathered(serve(LLAMA))
    assert (found["engine"], found["engine_version"]) == ("llama.cpp", "b6500-abcdef")
    assert (found["model"], found["precision"]) == ("smol.Q4_1", "Q4_1")
    assert found["context_policy"] == "4 slots of 2048 tokens"
    assert "kv_precision" not in found  # it does not tell, and a guess would be one
    assert found["sources"]["precision"] == "file name"
    assert found["sources"]["engine_version"] == "server"
    assert "secret-folder" not in json.dumps(found)


def test_vllm_tells_of_itself(serve: Serve) -> None:
    found = gathered(serve(VLLM))
    assert (found["engine"], found["engine_version"]) == ("vLLM", "0.11.2")
    assert found["model"] == "meta-llama/Llama-3.1-8B-Instruct-FP8"
    assert (found["precision"], found["context_policy"]) == ("FP8", "8192 tokens")


def test_sglang_tells_of_itself(serve: Serve) -> None:
    found = gathered(serve(SGLANG))
    assert (found["engine"], found["engine_version"]) == ("SGLang", "0.5")
    assert (found["precision"], found["kv_precision"]) == ("bfloat16", "fp8_e5m2")


def test_tgi_tells_of_itself(serve: Serve) -> None:
    found = gathered(serve(TGI), "tgi")
    assert (found["engine"], found["engine_version"]) == ("TGI", "3.3.6")
    assert (found["model"], found["precision"]) == ("org/model at 0123456789ab", "torch.bfloat16")


def test_what_a_person_types_is_right(serve: Serve) -> None:
    found = gathered(serve(LLAMA), precision="Q8_0", gpus=2, hour_micros=1_500_000)
    assert (found["precision"], found["gpus"], found["hour_micros"]) == ("Q8_0", 2, 1_500_000)
    assert found["sources"]["precision"] == found["sources"]["gpus"] == "typed"
    assert typed_again(found) == {"precision": "Q8_0", "gpus": 2, "hour_micros": 1_500_000}


@pytest.mark.parametrize(
    "typed",
    [
        {"gpus": -1},
        {"gpus": True},
        {"gpus": 10**30},
        {"gpus": "2"},
        {"hour_micros": 1.5},
        {"engine": None},
        {"engine": "  \x00\x07 "},
        {"unknown": "x"},
        {"engine": ["a"]},
    ],
    ids=str,
)
def test_typed_nonsense_is_left_out(typed: dict[str, Any]) -> None:
    found = gather_conditions(Target(kind="null"), typed=typed)
    assert set(found) <= {"machine", "sources"}


def test_typed_words_are_cut_and_plain() -> None:
    found = gather_conditions(Target(kind="null"), typed={"engine": "e\x1b[31m" + "x" * 1000})
    assert len(found["engine"]) == 200
    assert "\x1b" not in found["engine"]


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {"/v1/models": b"not JSON"},
        {"/v1/models": []},
        {"/v1/models": {"data": "x"}},
        {"/v1/models": {"data": [None]}},
        {"/v1/models": {"data": [{"id": 7, "owned_by": ["llamacpp"], "max_model_len": "many"}]}},
        {"/v1/models": {"data": [{"owned_by": "llamacpp"}]}, "/props": {"total_slots": {}}},
    ],
    ids=str,
)
def test_a_server_that_tells_nothing_sensible_is_tested_all_the_same(
    serve: Serve, answers: dict[str, Any]
) -> None:
    assert gathered(serve(answers), engine="typed")["engine"] == "typed"


def test_nobody_there_is_said_before_a_test_is_made() -> None:
    with pytest.raises(TargetDown, match="does not answer"):
        gathered("http://127.0.0.1:9")


def test_the_machine_of_another_host_is_not_this_one(serve: Serve) -> None:
    at = serve(LLAMA)
    far = Target(kind="openai", url=f"{at}/v1", host="far.example")
    assert "machine" not in gather_conditions(far, typed={})
    assert gathered(at)["sources"]["machine"] == "machine"


def test_through_the_gateway_the_one_upstream_behind_it_is_asked(
    serve: Serve, settings: Settings
) -> None:
    settings.OPENAI_URL, settings.OPENAI_MODEL, settings.TGI_URL = f"{serve(LLAMA)}/v1", "", ""
    target = Target(
        kind="openai", url="http://127.0.0.1:9/v1", via="gateway", model="openai", upstream="openai"
    )
    assert gather_conditions(target, typed={})["engine"] == "llama.cpp"


def test_this_machine_is_described() -> None:
    words = machine_words(describe_machine())
    assert "core" in words
    assert "GiB" in words
