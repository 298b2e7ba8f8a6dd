-- Oldest compatible migration: 0029
--
-- What happens if a repeated step still does not satisfy its condition after the last repetition,
-- and why a repetition began. Null if nothing happens, and before the first repetition.

alter table branching_condition
  add column on_exhausted  text check (on_exhausted in ('continue', 'review', 'fail')),
  add column cause         json;
