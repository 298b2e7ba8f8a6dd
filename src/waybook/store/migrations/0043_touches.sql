-- Oldest compatible migration: 0040
--
-- Files and named resources that a step changes, as one glob per line.

alter table plan_step add column touches text;
