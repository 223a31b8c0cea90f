"""A stand-in for the generator's process: reads a Job, says Events, sends nothing to anybody.

`python generator.py FOLDER BEHAVIOUR --records …`: what it was asked is noted in FOLDER. It imports
nothing of the site, so that it starts in some 30 ms.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import sys
import time
import uuid
from pathlib import Path
from typing import Any

KNEE = 5.0  # up to this load all requests are good
NOTED = ("LOADTEST_KEY", "DATABASE_URL", "SECRET_KEY", "DJANGO_SETTINGS_MODULE")


def figures(job: dict[str, Any], *, stopped: bool = False) -> dict[str, Any]:
    load = job["arrivals"]["load"]
    requests = 5 if stopped else min(job["bounds"]["requests"], 40)
    good = requests if load <= KNEE else 0
    times = {
        "count": requests,
        **{f"{name}_ms": 100.0 * load for name in ("mean", "p50", "p95", "p99", "max")},
    }
    return {
        "requests": requests,
        "complete": requests,
        "failed": 0,
        "offered_per_s": load,
        "duration_s": 1.0,
        "concurrency_mean": 1.0,
        "concurrency_max": 2,
        "prompt_tokens": 100 * requests,
        "output_tokens": 20 * requests,
        "cached_tokens": 0,
        "tokens_reported": requests,
        "output_per_s": 20.0 * load,
        "input_per_s": 100.0 * load,
        "requests_per_s": load,
        "ttft": times,
        "e2e": times,
        "good": good,
        "good_share": good / requests,
        "goodput_per_s": good / 1.0,
        "keeps_promises": good == requests,
        "client": {
            "cpu_share": 0.1,
            "lag_p50_ms": 0.1,
            "lag_p99_ms": 1.0,
            "lag_max_ms": 2.0,
            "late_p99_ms": 1.0,
            "late_max_ms": 2.0,
            "is_trustworthy": True,
        },
        "stopped": stopped,
    }


def say(event: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def progress(sent: float = 1) -> None:
    told = {"sent": sent, "ended": 0, "failed": 0, "in_flight": 1, "elapsed_s": 1, "of_s": 30}
    say({"event": "progress", "progress": {**told, "warming_up": False}})


def kept(folder: str) -> str:
    path = Path(folder) / f"records-{uuid.uuid4().hex}.jsonl.gz"
    record = {"number": 0, "intended_s": 0.0, "outcome": "complete"}
    path.write_bytes(gzip.compress(json.dumps(record).encode() + b"\n"))
    return str(path)


def until_told(job: dict[str, Any], *, heeds: bool) -> None:
    """Measure for ever, unless told to end."""
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append(1))
    while not told or not heeds:
        progress()
        time.sleep(0.05)
    say({"event": "done", "figures": figures(job, stopped=True)})


def behave(name: str, job: dict[str, Any], folder: str) -> None:
    done = figures(job)
    if name == "slow":
        return until_told(job, heeds=True)
    if name == "deaf":
        return until_told(job, heeds=False)
    if name == "garbage":
        sys.stdout.write("no JSON at all\n")
    elif name == "endless line":
        sys.stdout.write("x" * 6_000_000)
    elif name == "flood":
        line = json.dumps({"event": "progress", "message": "y" * 100_000}) + "\n"
        for _ in range(1000):
            sys.stdout.write(line)
    elif name == "dies":
        sys.stderr.write("Traceback: it broke\n")
        sys.exit(3)
    elif name == "down":
        say({"event": "failed", "code": "target_down", "message": "Nobody is there.\x07"})
    elif name == "invalid":
        say({"event": "failed", "code": "workload_invalid", "message": "No request is due."})
    elif name == "nan":
        sys.stdout.write(json.dumps({"event": "done", "figures": {**done, "duration_s": 1e999}}))
        sys.stdout.write("\n")
    elif name == "nul":
        say({"event": "done", "figures": {**done, "errors": {"a\x00b": 1}}})
    elif name == "odd":
        say({"event": "done", "figures": {"requests": "many"}})
    elif name == "elsewhere":
        say({"event": "done", "figures": done, "records": "/etc/passwd"})
    elif name == "odd progress":
        sys.stdout.write('{"event": "progress", "progress": {"sent": NaN, "<b>": 1}}\n')
        say({"event": "done", "figures": done})
    else:
        progress()
        say({"event": "done", "figures": done, "records": kept(folder)})
    sys.stdout.flush()
    return None


def main() -> None:
    notes, name, _, folder = sys.argv[1:5]
    job = json.loads(sys.stdin.readline())
    environment = {each: os.environ[each] for each in NOTED if each in os.environ}
    with (Path(notes) / "jobs.jsonl").open("a") as file:
        file.write(json.dumps({"job": job, "env": environment, "pid": os.getpid()}) + "\n")
    behave(name, job, folder)


if __name__ == "__main__":
    main()
