"""What is measured: the site as it is served, a model server that costs nothing, a load."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property

import psutil

from ragsite.stack.state import BASE_DIR
from tests.bench.gateway.load import Order, Timing
from tests.bench.stand import Stand, running_stack

TOKENS = 32
GAP_MS = 5.0
STREAM_S = TOKENS * GAP_MS / 1000
PATH = "/v1/chat/completions"
# The worker's tasks (probes, rollups) are left out: they would be noise.
PARTS = ("postgres", "redis", "schema", "site")
_FAR = 1_000_000_000


@dataclass(frozen=True)
class Bench:
    """Where to send: directly to the double, or through the gateway with a key."""

    stand: Stand
    upstream_port: int
    key: str

    @cached_property
    def site(self) -> psutil.Process:
        return psutil.Process(self.stand.processes["site"].pid)

    @property
    def site_port(self) -> int:
        return int(self.stand.site.rpartition(":")[2])

    def site_cpu_s(self) -> float:
        """CPU time of the web process so far, threads and all."""
        spent = self.site.cpu_times()
        return float(spent.user + spent.system)

    def upstream_calls(self) -> int:
        """Generations that the double was ever asked for."""
        address = f"http://127.0.0.1:{self.upstream_port}/counts"
        with urllib.request.urlopen(address, timeout=5) as reply:
            return int(json.load(reply)["made"])

    def directly(self, streams: int, requests: int, *, path: str = PATH) -> Order:
        return Order(
            port=self.upstream_port,
            path=path,
            streams=streams,
            requests=requests,
            series=uuid.uuid4().hex[:8],
            spread_s=STREAM_S,
        )

    def through_gateway(self, streams: int, requests: int, *, cached: bool = False) -> Order:
        """`cached`: by the cache's leave; otherwise it is told to stay out of the way."""
        headers = {"authorization": f"Bearer {self.key}"}
        if not cached:
            headers["cache-control"] = "no-cache"
        direct = self.directly(streams, requests)
        return replace(direct, port=self.site_port, headers=headers)


def send(order: Order) -> list[Timing]:
    """The timings of an order, from a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.gateway.load"],
        cwd=BASE_DIR,
        input=order.write(),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the load generator failed: {done.stderr}")
    return [tuple(timing) if timing else None for timing in json.loads(done.stdout)]


@contextmanager
def bench() -> Iterator[Bench]:
    """Everything running, for the block."""
    command = [sys.executable, "-m", "tests.bench.gateway.upstream", str(TOKENS), str(GAP_MS)]
    upstream = subprocess.Popen(command, cwd=BASE_DIR, stdout=subprocess.PIPE, text=True)
    try:
        assert upstream.stdout is not None
        port = int(upstream.stdout.readline())
        os.environ["TGI_URL"] = os.environ["TEI_URL"] = f"http://127.0.0.1:{port}"
        os.environ["GENERATION_CONCURRENCY"] = "128"  # what TGI itself takes
        with running_stack(PARTS) as stand:
            yield Bench(stand, port, _make_key())
    finally:
        upstream.terminate()
        upstream.wait(10)


def _make_key() -> str:
    """A tenant's key under every limit there is, none of them met; and a price."""
    # After Django has been set up.
    from django.utils import timezone

    from apps.gateway.models import Price
    from apps.tenants.models import Limit, Measure, Subject
    from apps.tenants.services.keys import create_key
    from ragsite.stack.demo.people import ensure_demo

    demo = ensure_demo()
    key, text = create_key(
        tenant=demo.tenant,
        name="Bench",
        expires_at=None,
        actor=demo.users["manager"],
        may_use_models=True,
    )
    for subject, of in ((Subject.TENANT, ""), (Subject.KEY, str(key.id))):
        for measure in (
            Measure.REQUESTS_PER_MINUTE,
            Measure.TOKENS_PER_MINUTE,
            Measure.CONCURRENT_CALLS,
            Measure.TOKENS_PER_DAY,
            Measure.MICROS_PER_MONTH,
        ):
            Limit.objects.create(
                tenant=demo.tenant,
                subject=subject,
                subject_id=of,
                measure=measure,
                amount=_FAR,
                given_by=Limit.GivenBy.MANAGER,
            )
    Price.objects.create(
        upstream="tgi",
        valid_from=timezone.now(),
        input_micros_per_mtok=150_000,
        output_micros_per_mtok=600_000,
    )
    return text
