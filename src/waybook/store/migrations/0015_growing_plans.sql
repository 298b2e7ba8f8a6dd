-- Steps of silent holders are handed out again, a limited number of times; branches can repeat a
-- range of steps.

alter table plan_step
  add column max_attempts    smallint check (max_attempts >= 1),
  add column silent_holders  smallint check (silent_holders >= 1);

alter table branching_condition
  add column from_step_id  uuid,
  add column max_repeats   smallint check (max_repeats >= 1),
  add column repeats       smallint check (repeats >= 1),
  drop constraint branching_condition_action_check,
  add constraint branching_condition_action_check
      check (action in ('continue', 'skip_to', 'add_steps', 'repeat', 'fail'));
