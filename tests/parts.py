"""Real PostgreSQL and real Redis for every test, from the one-machine stack's own parts.

Loaded as a plugin (`-p tests.parts`): the parts must be up and named in the environment before
Django reads its settings. Tests connect as the application role: row-level security binds them as
it binds the site.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from ragsite.stack.postgres import APP_ROLE, OWNER_ROLE, Postgres
from ragsite.stack.redis import Redis

DATABASE = "ragsite_test"

state_dir = Path(tempfile.mkdtemp(prefix="ragsite-tests-"))
state_dir.chmod(0o755)
postgres = Postgres(state_dir / "postgres", log=state_dir / "postgres.log", durable=False)
redis = Redis(log=state_dir / "redis.log", run_dir=state_dir)

postgres.start()
postgres.ensure_database(DATABASE)
redis.start()
os.environ.update(
    VAR_DIR=str(state_dir),
    DATABASE_URL=postgres.url(APP_ROLE, DATABASE),
    DATABASE_OWNER_URL=postgres.url(OWNER_ROLE, DATABASE),
    REDIS_URL=redis.url,
    MEDIA_ROOT=str(state_dir / "media"),
)


def pytest_unconfigure() -> None:
    redis.stop()
    postgres.stop()
    shutil.rmtree(state_dir, ignore_errors=True)
