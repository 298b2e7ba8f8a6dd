#!/bin/sh
# Create the serving role of Waybook when the database is created; it owns nothing.
set -eu
psql --set ON_ERROR_STOP=1 --set password="$SERVING_PASSWORD" \
  --username "$POSTGRES_USER" --dbname "$POSTGRES_DB" <<'SQL'
create role waybook_app nologin nosuperuser nocreatedb nocreaterole nobypassrls noreplication;
create role waybook_serving login password :'password';
grant waybook_app to waybook_owner, waybook_serving;
SQL
