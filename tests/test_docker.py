"""The production files against the settings they feed; no Docker engine is needed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.conf import settings

from ragsite.env import REGISTRY

DOCKER = Path(settings.BASE_DIR) / "docker"
# What the images of others read, and what compose itself uses to put values together.
IMAGES_OWN = {
    *("POSTGRES_DB", "POSTGRES_PASSWORD", "OWNER_PASSWORD", "APP_PASSWORD"),
    *("REDIS_PASSWORD", "REDISCLI_AUTH", "MODEL_ID", "API_KEY"),
    *("TGI_IMAGE", "TGI_MODEL", "TEI_IMAGE", "TEI_MODEL", "TEI_RERANK_MODEL"),
    *("RAGSITE_IMAGE", "HTTP_PORT", "HTTPS_PORT", "TLS_DIR", "PROXY_MAX_BODY"),
}
OUR_SERVICES = ("site", "worker", "migrate")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    return loaded


def example() -> dict[str, str]:
    lines = (DOCKER / ".env.example").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def build_arguments() -> set[str]:
    return set(re.findall(r"^ARG ([A-Z_]+)", (DOCKER / "Dockerfile").read_text(), re.MULTILINE))


def interpolated() -> dict[str, str]:
    """Variables that compose.yaml takes from docker/.env, with what follows the name."""
    text = (DOCKER / "compose.yaml").read_text()
    return dict(re.findall(r"\$\{([A-Z][A-Z0-9_]*)([^}]*)\}", text))


@pytest.mark.parametrize("service", OUR_SERVICES)
def test_every_variable_of_our_services_is_a_setting(compose: dict[str, Any], service: str) -> None:
    assert set(compose["services"][service]["environment"]) <= set(REGISTRY)


def test_variables_of_other_images_are_known(compose: dict[str, Any]) -> None:
    others = [name for name in compose["services"] if name not in OUR_SERVICES]
    named = {v for name in others for v in compose["services"][name].get("environment", {})}
    assert named <= IMAGES_OWN


def test_every_variable_of_the_env_file_is_used_and_known() -> None:
    assert set(example()) <= set(interpolated())
    assert set(interpolated()) <= set(REGISTRY) | IMAGES_OWN | build_arguments()


def test_every_variable_without_a_default_is_in_the_env_file_and_says_what_to_do() -> None:
    required = {name: rest for name, rest in interpolated().items() if not rest.startswith(":-")}
    assert set(required) <= set(example())
    assert all(rest.startswith(":?set ") for rest in required.values()), required


def test_the_env_file_holds_no_secret() -> None:
    secrets = {n: v for n, v in example().items() if n.endswith(("_KEY", "_PASSWORD", "_TOKEN"))}
    assert len(secrets) >= 7
    assert not any(secrets.values())


def test_the_site_may_not_migrate_and_the_migration_may(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert "DATABASE_OWNER_URL" in services["migrate"]["environment"]
    for name in ("site", "worker"):
        assert "ragsite_app:" in services[name]["environment"]["DATABASE_URL"]
        assert "DATABASE_OWNER_URL" not in services[name]["environment"]
        assert services[name]["depends_on"]["migrate"] == {
            "condition": "service_completed_successfully"
        }


def test_the_broker_may_not_evict_messages(compose: dict[str, Any]) -> None:
    command = compose["services"]["redis"]["command"]
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"


def test_model_servers_reserve_a_gpu(compose: dict[str, Any]) -> None:
    for name in ("tgi", "tei", "tei-rerank"):
        reserved = compose["services"][name]["deploy"]["resources"]["reservations"]["devices"]
        assert reserved[0]["capabilities"] == ["gpu"]


def test_every_long_running_service_is_watched_or_restarted(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert name == "migrate" or service["restart"] == "unless-stopped"


def test_the_proxy_passes_websockets_and_does_not_buffer() -> None:
    conf = (DOCKER / "nginx.conf.template").read_text()
    directives = {" ".join(line.split()) for line in conf.splitlines()}
    assert {
        "proxy_set_header Upgrade $http_upgrade;",
        "proxy_set_header Connection $connection_upgrade;",
        "proxy_set_header X-Forwarded-Proto $scheme;",
        "proxy_http_version 1.1;",
        "proxy_buffering off;",
    } <= directives
    assert conf.count("{") == conf.count("}")


def test_the_proxy_lets_the_largest_upload_through() -> None:
    values = example()
    assert values["PROXY_MAX_BODY"].endswith("m")
    let_through = int(values["PROXY_MAX_BODY"].removesuffix("m")) * 1024 * 1024
    assert let_through > int(values["UPLOAD_MAX_BYTES"])


def test_what_the_image_copies_exists_and_is_sent_to_the_engine() -> None:
    copies = re.findall(r"^COPY (?!--from)(.+)$", (DOCKER / "Dockerfile").read_text(), re.M)
    sources = [word for line in copies for word in line.split()[:-1]]
    ignore = (Path(settings.BASE_DIR) / ".dockerignore").read_text().splitlines()
    assert sources
    for source in sources:
        assert (Path(settings.BASE_DIR) / source).exists(), source
        assert f"!{source}" in ignore, source


def test_the_image_has_the_catalogues_of_every_language() -> None:
    copied = re.findall(r"^COPY (\S+) ", (DOCKER / "Dockerfile").read_text(), re.MULTILINE)
    assert {Path(path).name for path in settings.LOCALE_PATHS} <= set(copied)


def test_the_image_does_not_run_as_root() -> None:
    lines = (DOCKER / "Dockerfile").read_text().splitlines()
    assert "USER ragsite" in lines
    assert lines.index("USER ragsite") < next(i for i, x in enumerate(lines) if x[:3] == "CMD")


def test_files_that_services_mount_exist(compose: dict[str, Any]) -> None:
    mounts = [m for s in compose["services"].values() for m in s.get("volumes", [])]
    local = [mount.split(":")[0] for mount in mounts if mount.startswith("./")]
    assert len(local) == 2
    assert all((DOCKER / path).is_file() for path in local)


def test_no_image_names_a_registry(compose: dict[str, Any]) -> None:
    images = [service["image"] for service in compose["services"].values()]
    assert not [image for image in images if re.match(r"[\w-]+\.[\w.-]+/", image)]


def test_shell_scripts_parse() -> None:
    subprocess.run(["bash", "-n", str(DOCKER / "init-roles.sh")], check=True)


def test_compose_itself_accepts_the_file(tmp_path: Path) -> None:
    if shutil.which("docker") is None or _compose("version").returncode != 0:
        pytest.skip("no docker with the compose plug-in on this machine")
    filled = tmp_path / "env"
    filled.write_text("".join(f"{name}={value or 'x'}\n" for name, value in example().items()))
    outcome = _compose(
        "--env-file", str(filled), "--file", str(DOCKER / "compose.yaml"), "config", "--quiet"
    )
    assert outcome.returncode == 0, outcome.stderr


def _compose(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", "compose", *arguments], check=False, capture_output=True, text=True
    )
