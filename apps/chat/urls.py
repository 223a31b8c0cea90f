"""Addresses of chat pages, below `/t/<tenant_slug>/`."""

from __future__ import annotations

from django.urls import path

from apps.chat import views

app_name = "chat"

_CONVERSATION = "chat/<uuid:conversation_id>/"

urlpatterns = [
    path("chat/", views.home, name="home"),
    path("chat/conversations/", views.conversation_list, name="conversation_list"),
    path("chat/citations/<uuid:citation_id>/", views.citation, name="citation"),
    path("chat/answers/<uuid:answer_id>/details/", views.details, name="details"),
    path("chat/answers/<uuid:answer_id>/feedback/", views.give_feedback, name="feedback"),
    path(_CONVERSATION, views.conversation, name="conversation"),
    path(f"{_CONVERSATION}thread/", views.thread, name="thread"),
    path(f"{_CONVERSATION}rename/", views.rename, name="rename"),
    path(f"{_CONVERSATION}delete/", views.delete, name="delete"),
]
