"""Collections and documents of a running stack, through the pages a browser uses."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from http.cookies import SimpleCookie

import httpx

from ragsite.stack.demo import client
from ragsite.stack.demo.people import SLUG
from tests.running_stack import Stack, eventually

# What takes the engine a second or more to repeat, so that it can be interrupted on its way.
_STOPS = (
    "Skerry, Tarn, Aldern, Brunn, Hollow Point, Vessland, Orm, Cape Lantern, Baffle Bay, Gull "
    "Hill, Marsh End, Northgate, Foxley, Quern, Ryder, Sallow, Thornby, Upwell, Wick, Yarrow, "
    "Amber Cross, Birch Hollow, Cinder Ford, Dunmoor, Elder Bank, Fallow Green, Granite Bridge, "
    "Heron Lake, Iron Gate, Juniper Pass, Kestrel Rock, Linden Court, Mallow Street, Nettle Farm"
)
LONG_FACT = f"# The mail coach\n\nThe mail coach stops at these places: {_STOPS}.\n"
LONG_QUESTION = "At which places does the mail coach stop?"


@dataclass(frozen=True)
class Library:
    """One collection, open to everyone, and what a corpus admin does with it."""

    stack: Stack
    name: str
    id: str

    def upload(self, name: str, content: bytes) -> str:
        """Hand a file to the site; the document's id."""
        with site_client(self.stack, "corpus-admin") as site:
            answer = site.post(f"documents/{self.id}/upload/", files={"file": (name, content)})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["document"]["id"])

    def state_of(self, document: str) -> str:
        rows = self.stack.rows("SELECT state FROM documents_document WHERE id = %s", document)
        return str(rows[0][0])

    def wait_until_ready(self, *documents: str, within_s: float = 60) -> None:
        """Returns when all are ready; fails at once when one has failed."""

        def ready() -> bool:
            states = [self.state_of(document) for document in documents]
            assert "failed" not in states, states
            return all(state == "ready" for state in states)

        eventually(ready, within_s=within_s, what=f"{len(documents)} documents to be ready")

    def add(self, name: str, content: str | bytes) -> str:
        """Upload and wait; the document's id."""
        data = content.encode() if isinstance(content, str) else content
        document = self.upload(name, data)
        self.wait_until_ready(document)
        return document

    def delete(self, document: str) -> None:
        with site_client(self.stack, "corpus-admin") as site:
            answer = site.post(f"documents/{self.id}/{document}/delete/")
        assert answer.status_code == 302, answer.text

    def ask(self, question: str) -> client.Answer:
        """The whole answer to a new conversation's first question."""
        cookie = self.stack.cookie("corpus-admin")
        with client.open_chat(self.stack.url, SLUG, cookie=cookie) as chat:
            return client.ask(chat, question, collections=[self.id])


def make_library(stack: Stack, name: str = "") -> Library:
    """A new collection, open to everyone in the tenant."""
    name = name or f"Library {uuid.uuid4().hex[:8]}"
    form = {"name": name, "description": "", "open_to_all": "True"}
    with site_client(stack, "corpus-admin") as site:
        answer = site.post("documents/create/", data=form)
    found = re.search(r"documents/([0-9a-f-]{36})/", answer.headers.get("Location", ""))
    assert found, answer.text
    return Library(stack, name, found[1])


def site_client(stack: Stack, who: str) -> httpx.Client:
    """A signed-in HTTP client; paths are below the tenant's."""
    cookie = stack.cookie(who)
    token = SimpleCookie(cookie)["csrftoken"].value
    headers = {"Cookie": cookie, "X-CSRFToken": token, "Referer": stack.url}
    return httpx.Client(
        base_url=f"{stack.tenant_url}/", headers=headers, timeout=30, trust_env=False
    )
