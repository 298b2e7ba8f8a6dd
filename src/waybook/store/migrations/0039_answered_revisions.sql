-- Oldest compatible migration: 0029
--
-- Revision of the plan whose instructions the holder of a step got, or its result answers, if the
-- instructions have changed since. Otherwise null.

alter table plan_step add column answers_revision integer;
