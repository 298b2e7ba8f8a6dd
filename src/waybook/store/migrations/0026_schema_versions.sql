-- Oldest compatible migration: 0025
--
-- The serving role may read which migrations were applied, so that a server can check the schema
-- without the owner's URL. `migrate.sql` creates the table and grants the privilege, because the table
-- exists before the first migration.

comment on table schema_migration is 'Applied migrations, and which programs can use the schema.';
