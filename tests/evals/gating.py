"""A model with a route in force and a candidate, two servers that answer as told, and a set."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from apps.documents.models import Collection
from apps.evals.answering import claims, judging, needles, slicing
from apps.evals.answering.starting import start_gate
from apps.evals.answering.working import answer_next
from apps.evals.models import AnswerRun, LabelledSet
from apps.gateway.calling import catalogue
from apps.gateway.models import GatewayModel, GatewayRoute, GatewayUpstream
from apps.tenants.models import Tenant
from apps.tenants.scope import tenant_scope
from tests.contract.loopback import Exchange
from tests.contract.tgi import Behaviour, TgiDouble
from tests.evals.labelled import TOPICS, add_question, make_corpus, make_set

Speaks = Callable[[str], str]
NOT_FOUND = "The documents do not say."


class Speaker(TgiDouble):
    """Answers what `speaks` makes of the prompt."""

    def __init__(self, speaks: Speaks) -> None:
        super().__init__(max_input_tokens=100_000, max_total_tokens=200_000)
        self.speaks = speaks
        self.asked = 0

    def _generate(self, exchange: Exchange, body: dict[str, Any]) -> None:
        self.asked += 1
        prompt = body["messages"][-1]["content"] if "messages" in body else body["inputs"]
        pieces = re.findall(r"\s*\S+", self.speaks(prompt))
        self.default = Behaviour(tokens=tuple(pieces))
        super()._generate(exchange, body)


def well(prompt: str) -> str:
    """Right about every topic and needle; abstains where it is asked of the moon."""
    if code := re.search(r"access code of the .* vault is (\d+)", prompt):
        return f"It is {code[1]}. [1]"
    asked = re.search(r"What (?:\w+ )*the (\w+) rules", prompt.rpartition("Question:")[2])
    if not asked:
        return NOT_FOUND
    best = re.search(rf"\[(\d+)\] [^\n]*The {asked[1]} rules are set out here", prompt)
    return f"The {asked[1]} rules are set out here. [{best[1] if best else 1}]"


@dataclass
class Scene:
    tenant: Tenant
    labelled_set: LabelledSet
    in_force: Speaker
    candidate: Speaker
    base: GatewayRoute
    route: GatewayRoute

    def start(self, **more: Any) -> AnswerRun:
        return start_gate(
            **{
                "tenant": self.tenant,
                "labelled_set": self.labelled_set,
                "route_id": self.route.id,
                "user": None,
                **more,
            }
        )

    def offered(self) -> list[str]:
        """Upstreams that callers are routed to."""
        catalogue.forget()
        return [each.upstream.name for each in catalogue.current().find("large").routes]


@contextmanager
def open_scene(collection: Collection, **route: Any) -> Iterator[Scene]:
    """Two questions a topic; four topics in the slice `benefits`, four in `office`."""
    with Speaker(well) as old, Speaker(well) as new:
        model = GatewayModel.objects.create(alias="large", label="Large", passages=4)
        routes = []
        for name, server, fields in (
            ("old", old, {}),
            ("new", new, route or {"precision": "FP8"}),
        ):
            at = GatewayUpstream.objects.create(name=name, kind="tgi", url=server.url)
            routes.append(
                GatewayRoute.objects.create(
                    **{"model": model, "upstream": at, "upstream_model": "org/large", **fields}
                )
            )
        yield Scene(
            Tenant.objects.get(id=collection.tenant_id), task_set(collection), old, new, *routes
        )
    catalogue.forget()


def task_set(collection: Collection) -> LabelledSet:
    corpus = make_corpus(collection)
    made = make_set(collection, name="Tasks")
    ways = [f"What {'really ' * n}are the {{}} rules?" for n in range(2)]
    for place, topic in enumerate(TOPICS):
        for number, way in enumerate(ways):
            question = add_question(
                made,
                way.format(topic),
                corpus[topic],
                key=f"{topic}-{number}",
                slices=["benefits" if place < 4 else "office"],
            )
            with tenant_scope(made.tenant_id):
                question.reference_answer = "set out here"
                question.save(update_fields=["reference_answer"])
    return made


def few_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight questions are enough to tell: the real pipeline takes its time for each."""
    for module in (judging, slicing):
        monkeypatch.setattr(module, "FEW", 8)
    monkeypatch.setattr(needles, "SHARES", (0.5, 0.95))
    monkeypatch.setattr(needles, "DEPTHS", (0.0, 1.0))


def finish(run: AnswerRun, *, turns: int = 60) -> AnswerRun:
    """As a worker does, message after message."""
    for _ in range(turns):
        if run.state not in claims.UNFINISHED:
            break
        AnswerRun.objects.filter(id=run.id).update(lease_expires_at=None)
        answer_next()
        run.refresh_from_db()
    return run
