-- Indexes for lists, counts, the stall sweep and filters of the audit, so that their cost does not
-- grow with the number of plans.
--
-- Plans are listed by activity. An index on `updated_at` itself would change with every step, and
-- PostgreSQL could no longer update the row in place (HOT); the minute changes at most once a
-- minute. It is a generated column, because under row-level security an index serves a condition
-- only if its functions are leakproof, and the function of an expression is not.

alter table plan
  add column active_minute timestamp not null
    generated always as (date_bin('1 minute', updated_at at time zone 'UTC',
                                  timestamp '2000-01-01')) stored;

create index plan_open_activity on plan (org_id, active_minute) where completed_at is null;
create index plan_closed_activity on plan (org_id, active_minute) where completed_at is not null;
create index plan_status on plan (org_id, status, id);
create index plan_creator on plan_brief (org_id, created_by, plan_id);

-- A failed step always has a reason. The condition does not name the status, because then no change
-- of a step's status could be made in place.
create index plan_step_failed on plan_step (org_id, plan_id) where fail_reason is not null;

create index review_waiting on review (org_id, requested_at, id) where decision is null;

create index run_open on run (org_id, id) where completed_at is null and canceled_at is null;
create index run_completed on run (org_id, completed_at) where completed_at is not null;
create index run_canceled on run (org_id, canceled_at) where canceled_at is not null;

-- The two frequent events, and the channel of agents, need no index: entries of them are always
-- among the latest ones.
create index audit_entry_actor on audit_entry (org_id, actor, at);
create index audit_entry_event on audit_entry (org_id, event, at)
  where event not in ('step_started', 'step_completed');
create index audit_entry_channel on audit_entry (org_id, channel, at) where channel <> 'mcp';

-- On a table without statistics, several indexes seem to cost the same, and the newest is used. The
-- lookup of short ids must not scan the whole org, so its indexes are created again, as the newest.
drop index plan_short_key, plan_step_short_key, review_short_key, run_short_key;
create unique index plan_short_key on plan (org_id, short_key);
create unique index plan_step_short_key on plan_step (org_id, short_key);
create unique index review_short_key on review (org_id, short_key);
create unique index run_short_key on run (org_id, short_key);
