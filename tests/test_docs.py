"""The documentation is true: what it names exists, and what exists is described."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import get_commands

from apps.chat.errors import ChatError
from apps.documents.errors import DocumentError
from apps.gateway.errors import GatewayError
from apps.telemetry.hops import WALKS
from ragsite.env import REGISTRY
from worker.sandbox import SandboxError

ROOT = Path(settings.BASE_DIR)
DOCS = ROOT / "docs"
PAGES = sorted(
    [
        *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
        *DOCS.glob("*.md"),
        *DOCS.glob("decisions/*.md"),
    ]
)
DECISIONS = sorted(DOCS.glob("decisions/*.md"))
FOLDERS = "apps|docker|docs|ragsite|scripts|static|templates|tests|worker"
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
REPO_PATH = re.compile(
    rf"(?:{FOLDERS}|\.ci)/[\w./*-]*|[\w-]+\.(?:toml|lock|md)|manage\.py|Makefile|LICENSE"
)
MADE_BY_PEOPLE = {"docker/.env"}
SETTING = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+")
pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def spoken_of(name: str) -> set[str]:
    """What a page of `docs/` names in code type."""
    return {each.strip() for each in CODE.findall(FENCE.sub("", read(DOCS / name)))}


def sources(*patterns: str) -> Iterator[str]:
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            yield path.read_text(encoding="utf-8")


def codes_of(root: type[Exception]) -> set[str]:
    found = {str(getattr(root, "code", ""))}
    return found.union(*(codes_of(kind) for kind in root.__subclasses__())) - {""}


@pages
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    targets = [link for link in LINK.findall(read(page)) if not re.match(r"[a-z]+:|#", link)]
    missing = [link for link in targets if not (page.parent / link.split("#")[0]).exists()]
    assert not missing


def test_the_readme_leads_to_every_page() -> None:
    linked = {(ROOT / link).resolve() for link in LINK.findall(read(ROOT / "README.md"))}
    assert set(DOCS.glob("*.md")) - linked == set()


def test_the_readme_names_every_make_target() -> None:
    targets = set(re.findall(r"^([a-z]+):", read(ROOT / "Makefile"), re.MULTILINE)) - {"setup"}
    assert {each for each in targets if f"`make {each}" not in read(ROOT / "README.md")} == set()


@pages
def test_every_repository_path_exists(page: Path) -> None:
    named = {
        code for code in CODE.findall(read(page)) if REPO_PATH.fullmatch(code)
    } - MADE_BY_PEOPLE
    missing = {path for path in named if not (list(ROOT.glob(path)) or (DOCS / path).exists())}
    assert not missing


@pages
def test_every_make_target_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", read(ROOT / "Makefile"), re.MULTILINE))
    text = read(page)
    code = "\n".join([*CODE.findall(text), *FENCE.findall(text)])
    assert set(re.findall(r"^(?:\w+=\S+ )?make ([a-z-]+)", code, re.MULTILINE)) <= targets


@pages
def test_every_management_command_exists(page: Path) -> None:
    named = set(re.findall(r"manage\.py ([a-z_-]+)", read(page)))
    assert named <= set(get_commands())


@pages
def test_every_setting_exists(page: Path) -> None:
    known = {*REGISTRY, *SETTING.findall(read(ROOT / "docker" / "compose.yaml"))}
    named = {code for code in CODE.findall(read(page)) if SETTING.fullmatch(code)}
    code_names = {name for name in named if name in "".join(sources("apps/**/*.py", "worker/*.py"))}
    assert named - known - code_names == set()


def test_every_frame_type_and_field_is_described() -> None:
    described = spoken_of("streaming.md")
    fields: set[str] = set()
    for name in ("frames", "streams/runs", "consumers"):
        nodes = list(ast.walk(ast.parse(read(ROOT / "apps" / "chat" / f"{name}.py"))))
        # What is put into a sentence is no field.
        words = [node.right for node in nodes if isinstance(node, ast.BinOp)]
        for node in nodes:
            if isinstance(node, ast.Dict) and node not in words:
                fields |= set(_keys_and_type(node))
    assert {"answer.tokens", "hello", "marker"} <= fields
    assert fields - described - {"v", "type"} == set()


def _keys_and_type(node: ast.Dict) -> Iterator[str]:
    """The keys of a frame, or of a part of one, and the type it says it is of."""
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield key.value
            if key.value == "type" and isinstance(value, ast.Constant):
                yield str(value.value)


@pytest.mark.parametrize("root", [ChatError, GatewayError])
def test_every_error_of_the_chat_is_explained(root: type[Exception]) -> None:
    assert codes_of(root) - spoken_of("streaming.md") == set()


@pytest.mark.parametrize("root", [DocumentError, SandboxError])
def test_every_error_of_a_document_is_explained(root: type[Exception]) -> None:
    assert codes_of(root) - spoken_of("documents.md") == set()


def test_every_code_a_document_can_fail_with_is_explained() -> None:
    text = "".join(sources("apps/documents/*.py"))
    literal = re.compile(r"""(?:code=|"code":\s|_failed\(\s*|_fail\(\s*)"([a-z_]+)\"""")
    codes = set(literal.findall(text))
    assert "kept_crashing" in codes
    assert codes - spoken_of("documents.md") == set()


def test_every_hop_is_described() -> None:
    text = "".join(sources("apps/**/*.py"))
    hops = set(re.findall(r'\.hop\(\s*"([a-z_]+)"', text)).union(*WALKS.values())
    page = read(DOCS / "answers.md")
    assert {hop for hop in hops if not re.search(rf"\b{hop}\b", page)} == set()


def test_every_notice_is_described() -> None:
    text = "".join(sources("apps/retrieval/**/*.py", "apps/chat/**/*.py"))
    codes = set(re.findall(r'Notice\(\s*"([a-z_]+)"', text))
    assert "embedder_down" in codes
    assert codes - spoken_of("answers.md") == set()


@pytest.mark.parametrize(
    ("name", "words", "setting"),
    [
        ("documents.md", "at most {} tokens", "CHUNK_TOKENS"),
        ("documents.md", "share up to {} tokens", "CHUNK_OVERLAP_TOKENS"),
        ("documents.md", "at most {} files", "UPLOAD_MAX_FILES"),
        ("answers.md", "{} passages are shown to the model", "GENERATION_PASSAGES"),
        ("answers.md", "together have at most {} tokens", "GENERATION_CONTEXT_TOKENS"),
        ("answers.md", "the answer has at most {}", "GENERATION_MAX_TOKENS"),
        ("retrieval.md", "best {} passages are ranked a second time", "RERANK_CANDIDATES"),
        ("retrieval.md", "relevance below {}", "NOT_FOUND_BELOW"),
        ("streaming.md", "at most {} characters", "QUESTION_MAX_CHARS"),
        ("chat.md", "up to {} characters", "QUESTION_MAX_CHARS"),
        ("operations.md", "`DATABASE_POOL_MAX` connections, {} by default", "DATABASE_POOL_MAX"),
    ],
)
def test_defaults_in_the_text_are_the_settings_own(name: str, words: str, setting: str) -> None:
    default = REGISTRY[setting].default
    spoken = f"{int(default):,}" if default.isdecimal() else default
    assert words.format(spoken) in read(DOCS / name)


def test_decisions_are_numbered_and_whole() -> None:
    numbers = [page.name[:4] for page in DECISIONS]
    assert len(set(numbers)) == len(numbers)
    for page in DECISIONS:
        text = read(page)
        assert text.startswith(f"# {page.name[:4]}: "), page.name
        for heading in ("## Context", "## Decision", "## Measured", "## When to revisit"):
            assert f"\n{heading}\n" in text, f"{page.name} lacks {heading}"


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads(read(ROOT / "pyproject.toml"))["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["embedded"]]
    names = {re.split(r"[\[<>=]", each)[0] for each in wanted}
    page = next(page for page in DECISIONS if page.name.startswith("0001-"))
    explained = set(re.findall(r"^- `([\w-]+)`", read(page), re.MULTILINE))
    assert names == explained
