#!/bin/bash
# Run once by PostgreSQL's image, on an empty data directory: the two roles of the site.
# The owner makes the tables. The site's role owns vectors only, so that row-level security binds it;
# the owner is a member of it, to hand those over.
set -euo pipefail
psql --set=ON_ERROR_STOP=1 --username="$POSTGRES_USER" --dbname=ragsite \
  --set=owner_password="$OWNER_PASSWORD" --set=app_password="$APP_PASSWORD" <<'SQL'
CREATE ROLE ragsite_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE ragsite_app LOGIN PASSWORD :'app_password';
GRANT ragsite_app TO ragsite_owner;
ALTER DATABASE ragsite OWNER TO ragsite_owner;
ALTER SCHEMA public OWNER TO ragsite_owner;
CREATE EXTENSION IF NOT EXISTS vector;
SQL
