-- Oldest compatible migration: 0029
--
-- The lists by whose items the steps of a run are split: name, length, document, newer version.
-- Null if the workflow has no such steps.

alter table run add column lists json;
