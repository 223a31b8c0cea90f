"""A conversation as a tree: each message follows another, several with the same are branches.

Read once without texts, walked in memory. What is stored may be broken (a message whose parent is
gone, a ring): such a message is taken to follow the latest one before it, so that every message
is on some branch and no walk goes round for ever.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from apps.chat.models import Message, MessageRole


@dataclass(frozen=True)
class Node:
    """A message without its text."""

    id: uuid.UUID
    role: str
    in_reply_to: uuid.UUID | None
    comparison: uuid.UUID | None
    created_at: datetime


class Branches:
    """The tree of one conversation."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._nodes = sorted(nodes, key=_age)
        self._by_id = {node.id: node for node in self._nodes}
        self._parents: dict[uuid.UUID, uuid.UUID | None] = {}
        self._children: dict[uuid.UUID | None, list[Node]] = defaultdict(list)
        self._connect()

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._by_id

    def node(self, message_id: uuid.UUID) -> Node:
        """Raises KeyError for a message of another conversation."""
        return self._by_id[message_id]

    @property
    def latest(self) -> uuid.UUID | None:
        """The newest message of all."""
        return self._nodes[-1].id if self._nodes else None

    def path_to(self, message_id: uuid.UUID) -> list[uuid.UUID]:
        """From the first question to this message."""
        path: list[uuid.UUID] = []
        at: uuid.UUID | None = message_id
        while at is not None:
            path.append(at)
            at = self._parents[at]
        return path[::-1]

    def newest_below(self, message_id: uuid.UUID) -> uuid.UUID:
        """Where the branch ends that was written in last; the message itself where none follows."""
        found = self._newest_after(self._by_id[message_id])
        return found.id if found else message_id

    def entry_of(self, node: Node) -> list[Node]:
        """The answers that stand beside each other with this one: a comparison, or it alone."""
        if node.comparison is None:
            return [node]
        beside = self._children[self._parents[node.id]]
        return [each for each in beside if each.comparison == node.comparison]

    def siblings(self, message_id: uuid.UUID) -> list[uuid.UUID]:
        """The branches at this place, oldest first. A comparison is one: see `named`."""
        node = self._by_id[message_id]
        beside = [e for e in self._children[self._parents[message_id]] if e.role == node.role]
        firsts = dict.fromkeys(self.entry_of(each)[0].id for each in beside)
        return [self.named(first) for first in firsts]

    def named(self, message_id: uuid.UUID) -> uuid.UUID:
        """What stands for the message's branch: of a comparison the side last gone on from."""
        entry = self.entry_of(self._by_id[message_id])
        if len(entry) == 1:
            return message_id
        ends = [(end.created_at, each.id) for each in entry if (end := self._newest_after(each))]
        return max(ends)[1] if ends else entry[0].id

    def _newest_after(self, node: Node) -> Node | None:
        newest, waiting = None, [node]
        while waiting:
            following = self._children[waiting.pop().id]
            newest = max([newest, *following] if newest else following, key=_age, default=newest)
            waiting += following
        return newest

    def _connect(self) -> None:
        """Hang every message below its parent; then, oldest first, those that hang nowhere."""
        told: dict[uuid.UUID | None, list[Node]] = defaultdict(list)
        for node in self._nodes:
            told[node.in_reply_to].append(node)
        for node in told[None]:
            if node.role == MessageRole.QUESTION:
                self._hang(node, None, told)
        for place, node in enumerate(self._nodes):
            if node.id not in self._parents:
                self._hang(node, self._before(place), told)
        for following in self._children.values():
            following.sort(key=_age)

    def _hang(
        self,
        node: Node,
        parent: uuid.UUID | None,
        told: dict[uuid.UUID | None, list[Node]],
    ) -> None:
        """This message, and all that is said to follow it and hangs nowhere yet."""
        waiting = [(node, parent)]
        while waiting:
            each, above = waiting.pop()
            if each.id in self._parents:
                continue
            self._parents[each.id] = above
            self._children[above].append(each)
            waiting += [(below, each.id) for below in told[each.id]]

    def _before(self, place: int) -> uuid.UUID | None:
        """The latest earlier message that can come before it: of the other role if there is one."""
        role = self._nodes[place].role
        earlier = [node for node in reversed(self._nodes[:place]) if node.id in self._parents]
        return next((node.id for node in earlier if node.role != role), None)


def _age(node: Node) -> datetime:
    return node.created_at


def branches_of(tenant_id: uuid.UUID, conversation_id: uuid.UUID) -> Branches:
    """Read the tree of one conversation, in one query."""
    rows = Message.objects.filter(tenant_id=tenant_id, conversation_id=conversation_id)
    fields = ("id", "role", "in_reply_to", "comparison", "created_at")
    return Branches(Node(*row) for row in rows.values_list(*fields))


def shown_path(branches: Branches, leaf_id: uuid.UUID | None) -> list[uuid.UUID]:
    """The messages of the branch that `leaf_id` is on, to its end; of the latest without one."""
    leaf = leaf_id if leaf_id in branches else branches.latest
    if leaf is None:
        return []
    return branches.path_to(branches.newest_below(leaf))
