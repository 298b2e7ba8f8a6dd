-- Oldest compatible migration: 0040
--
-- Plans and runs of the demo, whose clock is simulated, so that forecasts can leave them out.

alter table plan_brief add column simulated boolean;
alter table run_brief add column simulated boolean;
