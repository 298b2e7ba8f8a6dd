-- Oldest compatible migration: 0029
--
-- What happens if a repeated step still does not satisfy its condition after the last repetition,
-- and why a repetition began. Null if nothing happens, and before the first repetition.

alter table branching_condition
  add column on_exhausted text
    constraint branching_condition_on_exhausted_check
    check (on_exhausted in ('continue', 'review', 'fail'));
alter table branching_condition add column cause json;
