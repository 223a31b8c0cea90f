"""The API's description (OpenAPI 3.1), written by hand; a test holds it against the answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.documents.api.queries import LIMIT_DEFAULT, LIMIT_MAX, STATES
from apps.documents.models import Batch, DocumentState

Schema = dict[str, Any]

_UUID: Schema = {"type": "string", "format": "uuid"}
_TIME: Schema = {"type": "string", "format": "date-time"}
_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_YES_OR_NO: Schema = {"type": "boolean"}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(**properties: Schema) -> Schema:
    """All of these, and nothing else."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _optional(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _list(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


_SCHEMAS: dict[str, Schema] = {
    "Reason": _object(code=_TEXT, message=_TEXT),
    "Error": _object(error=_ref("Reason")),
    "Collection": _object(
        id=_UUID,
        name=_TEXT,
        description=_TEXT,
        created_at=_TIME,
        documents=_object(total=_COUNT, ready=_COUNT, failed=_COUNT, unfinished=_COUNT),
    ),
    "Document": _object(
        id=_UUID,
        collection_id=_UUID,
        batch_id=_or_null(_UUID),
        path=_TEXT,
        name=_TEXT,
        version={"type": "integer", "minimum": 1},
        state={"type": "string", "enum": list(DocumentState.values)},
        error=_or_null(_ref("Reason")),
        waits_for=_or_null(_ref("Reason")),
        progress=_object(done=_COUNT, total=_COUNT),
        kind=_TEXT,
        language=_TEXT,
        tags=_list(_TEXT),
        size_bytes=_COUNT,
        sha256={"type": "string", "pattern": "^[0-9a-f]{64}$"},
        pages=_COUNT,
        chunks=_COUNT,
        created_at=_TIME,
        updated_at=_TIME,
        ready_at=_or_null(_TIME),
    ),
    "Batch": _object(
        id=_UUID,
        collection_id=_UUID,
        source={"type": "string", "enum": list(Batch.Source.values)},
        expected=_COUNT,
        unchanged=_COUNT,
        documents=_object(**dict.fromkeys(DocumentState.values, _COUNT)),
        finished=_YES_OR_NO,
        created_at=_TIME,
    ),
    "CollectionList": _object(collections=_list(_ref("Collection"))),
    "DocumentList": _object(documents=_list(_ref("Document")), next=_or_null(_TEXT)),
    "DocumentAnswer": _object(document=_ref("Document")),
    "UploadAnswer": _object(document=_ref("Document"), unchanged=_YES_OR_NO),
    "BatchAnswer": _object(batch=_ref("Batch")),
}

# What any operation may answer besides its own; what is said of a status is in docs/api.md.
_ALWAYS = {
    400: "The request is broken, or holds a key in its address",
    401: "No key, or none that works",
    404: "Not there, or not open to this key",
    503: "A part is away; Retry-After says for how long",
}
_OF_WRITES = {
    403: "The key may only read",
    422: "Understood and refused; also an Idempotency-Key that was used for another request",
}
_OF_POSTS = {
    409: "Does not fit its state, or the same request is under way (Retry-After)",
    410: "Carried out before; its document has been deleted since",
    415: "Not a content type that is read here",
}


def _answer(words: str, schema: str | None) -> Schema:
    if schema is None:
        return {"description": words}
    return {"description": words, "content": {"application/json": {"schema": _ref(schema)}}}


def _operation(
    summary: str,
    answers: Mapping[int, tuple[str, str | None]],
    *refusals: dict[int, str],
    **more: Any,
) -> Schema:
    refused = {
        status: (words, "Error") for each in (_ALWAYS, *refusals) for status, words in each.items()
    }
    responses = {
        str(status): _answer(*answer) for status, answer in sorted({**refused, **answers}.items())
    }
    return {"summary": summary, **more, "responses": responses}


def _in(place: str, name: str, words: str, schema: Schema, **more: Any) -> Schema:
    return {"in": place, "name": name, "description": words, "schema": schema, **more}


def _id(name: str) -> list[Schema]:
    return [_in("path", name, "Its id", _UUID, required=True)]


def _json(schema: Schema, *, required: bool = True) -> Schema:
    return {"required": required, "content": {"application/json": {"schema": schema}}}


_ONCE = _in(
    "header",
    "Idempotency-Key",
    "A request with the same key is carried out once and answered the same for 24 hours",
    {"type": "string", "minLength": 1, "maxLength": 255},
)
_PAGING = [
    _in("query", "state", "Only documents in this state", {"type": "string", "enum": [*STATES]}),
    _in("query", "path", "Only the versions of this path", _TEXT),
    _in("query", "cursor", "“next” of the page before", _TEXT),
    _in(
        "query",
        "limit",
        "Documents a page",
        {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    ),
]
_FILE = {"type": "string", "format": "binary"}
_UPLOAD = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {"file": _FILE, "path": _TEXT, "batch": _UUID, "tags": _TEXT},
                "required": ["file"],
            }
        },
        "*/*": {"schema": _FILE},
    },
}
_PATH = _in("query", "path", "What the file is called; needed where the body is the file", _TEXT)
_BATCH = _in("query", "batch", "The batch that it belongs to", _UUID)
_TAGS = _in("query", "tags", "Tags with commas between: at most 20, of 50 characters each", _TEXT)
_SENT_AGAIN = {202: ("On its way again", "DocumentAnswer")}

_PATHS: dict[str, Schema] = {
    "/collections": {
        "get": _operation(
            "Collections, by name", {200: ("All that the key opens", "CollectionList")}
        )
    },
    "/collections/{collection_id}/documents": {
        "parameters": _id("collection_id"),
        "get": _operation(
            "Documents, newest first",
            {200: ("A page of them", "DocumentList")},
            {422: "A filter or cursor that means nothing"},
            parameters=_PAGING,
        ),
        "post": _operation(
            "Upload one file",
            {
                201: ("Received", "UploadAnswer"),
                200: ("The collection has the same bytes already", "UploadAnswer"),
            },
            _OF_WRITES,
            _OF_POSTS,
            {413: "Larger than the largest file that is accepted, or than a limit leaves room for"},
            parameters=[_ONCE, _PATH, _BATCH, _TAGS],
            requestBody=_UPLOAD,
        ),
    },
    "/documents/{document_id}": {
        "parameters": _id("document_id"),
        "get": _operation("Where a document stands", {200: ("As of now", "DocumentAnswer")}),
        "delete": _operation(
            "Delete a document in all its versions", {204: ("Gone", None)}, {403: _OF_WRITES[403]}
        ),
    },
    "/documents/{document_id}/retry": {
        "parameters": _id("document_id"),
        "post": _operation(
            "Read a document again, in another way where the body says how",
            _SENT_AGAIN,
            _OF_WRITES,
            _OF_POSTS,
            {413: "A body that is too large"},
            parameters=[_ONCE],
            requestBody=_json(_optional(encoding=_TEXT, ocr=_YES_OR_NO), required=False),
        ),
    },
    "/documents/{document_id}/password": {
        "parameters": _id("document_id"),
        "post": _operation(
            "Open a document that is protected by a password",
            _SENT_AGAIN,
            _OF_WRITES,
            _OF_POSTS,
            {413: "A body that is too large"},
            parameters=[_ONCE],
            requestBody=_json(_object(password=_TEXT)),
        ),
    },
    "/batches": {
        "post": _operation(
            "Open a batch: documents that are sent together and counted together",
            {201: ("Opened", "BatchAnswer")},
            _OF_WRITES,
            _OF_POSTS,
            {413: "A body that is too large"},
            parameters=[_ONCE],
            requestBody=_json(
                {**_optional(collection_id=_UUID, expected=_COUNT), "required": ["collection_id"]}
            ),
        )
    },
    "/batches/{batch_id}": {
        "parameters": _id("batch_id"),
        "get": _operation("How far a batch is", {200: ("As of now", "BatchAnswer")}),
    },
}

DOCUMENT: Schema = {
    "openapi": "3.1.0",
    "info": {"title": "ragsite", "version": "1"},
    "servers": [{"url": "/api/v1"}],
    "security": [{"key": []}],
    "paths": _PATHS,
    "components": {
        "schemas": _SCHEMAS,
        "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
    },
}
