-- Oldest compatible migration: 0029
--
-- Plans whose steps wait for all steps before them. Null if they do not.

alter table plan_brief
  add column sequential boolean;
