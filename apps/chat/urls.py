"""Addresses of chat pages, below `/t/<tenant_slug>/`."""

from __future__ import annotations

from django.urls import path

from apps.chat.views import answers, conversations, pages

app_name = "chat"

_CONVERSATION = "chat/<uuid:conversation_id>/"

urlpatterns = [
    path("chat/", pages.home, name="home"),
    path("chat/conversations/", conversations.conversation_list, name="conversation_list"),
    path("chat/citations/<uuid:citation_id>/", answers.citation, name="citation"),
    path("chat/answers/<uuid:answer_id>/details/", answers.details, name="details"),
    path("chat/answers/<uuid:answer_id>/feedback/", answers.give_feedback, name="feedback"),
    path(_CONVERSATION, pages.conversation, name="conversation"),
    path(f"{_CONVERSATION}thread/", pages.thread, name="thread"),
    path(f"{_CONVERSATION}rename/", conversations.rename, name="rename"),
    path(f"{_CONVERSATION}delete/", conversations.delete, name="delete"),
]
