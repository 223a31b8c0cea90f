"""The chat's Prometheus metrics, of this process."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

SOCKETS = Gauge("ragsite_chat_sockets", "Websockets of the chat that are open.")
RUNS = Gauge("ragsite_chat_runs", "Answers being written.")
FOLLOWED = Gauge("ragsite_chat_followed", "Answers being sent to sockets, counted for each.")
RESUMED = Counter("ragsite_chat_resumed", "Answers that a socket went on to follow.")
RECOVERED = Counter("ragsite_chat_recovered", "Answers ended because their process had died.")
