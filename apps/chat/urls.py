"""Addresses of chat pages, below `/t/<tenant_slug>/`."""

from __future__ import annotations

from django.urls import path

from apps.chat.views import answers, conversations, exporting, folders, pages, searching, sharing

app_name = "chat"

_CONVERSATION = "chat/<uuid:conversation_id>/"
_FOLDER = "chat/folders/<uuid:folder_id>/"
_SHARED = "chat/shared/<uuid:share_id>/"

urlpatterns = [
    path("chat/", pages.home, name="home"),
    path("chat/suggestions/", pages.suggestions, name="suggestions"),
    path("chat/conversations/", conversations.conversation_list, name="conversation_list"),
    path("chat/conversations/more/", conversations.more_conversations, name="more"),
    path("chat/search/", searching.search, name="search"),
    path("chat/folders/", folders.create, name="create_folder"),
    path(f"{_FOLDER}rename/", folders.rename, name="rename_folder"),
    path(f"{_FOLDER}delete/", folders.delete, name="delete_folder"),
    path("chat/shares/", sharing.own_shares, name="shares"),
    path(_SHARED, sharing.shared, name="shared"),
    path(f"{_SHARED}revoke/", sharing.revoke, name="revoke_share"),
    path(
        f"{_SHARED}citations/<uuid:citation_id>/", sharing.shared_citation, name="shared_citation"
    ),
    path("chat/citations/<uuid:citation_id>/", answers.citation, name="citation"),
    path("chat/citations/<uuid:citation_id>/preview/", answers.preview, name="preview"),
    path("chat/citations/<uuid:citation_id>/around/", answers.around, name="around"),
    path("chat/answers/<uuid:answer_id>/", pages.answer, name="answer"),
    path("chat/answers/<uuid:answer_id>/copy/", answers.copy, name="copy"),
    path("chat/answers/<uuid:answer_id>/details/", answers.details, name="details"),
    path("chat/answers/<uuid:answer_id>/feedback/", answers.give_feedback, name="feedback"),
    path(_CONVERSATION, pages.conversation, name="conversation"),
    path(f"{_CONVERSATION}thread/", pages.thread, name="thread"),
    path(f"{_CONVERSATION}branch/", pages.branch, name="branch"),
    path(f"{_CONVERSATION}rename/", conversations.rename, name="rename"),
    path(f"{_CONVERSATION}pin/", conversations.pin, name="pin"),
    path(f"{_CONVERSATION}archive/", conversations.archive, name="archive"),
    path(f"{_CONVERSATION}move/", conversations.move, name="move"),
    path(f"{_CONVERSATION}delete/", conversations.delete, name="delete"),
    path(f"{_CONVERSATION}restore/", conversations.restore, name="restore"),
    path(f"{_CONVERSATION}share/", sharing.share, name="share"),
    path(f"{_CONVERSATION}export/<str:format>/", exporting.export, name="export"),
]
