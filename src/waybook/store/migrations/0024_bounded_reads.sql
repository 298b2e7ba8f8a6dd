-- Indexes and columns with which searches by name, the stall sweep, the overview and the number of
-- waiting items read a limited number of rows.

-- Words of the names of plans. Under row-level security, an index serves comparisons of texts on
-- every server, but the full-text operators only where they are marked as leakproof. A name never
-- changes.
create function app_name_parts(name text) returns text[]
  language sql immutable parallel safe
  return array(select distinct left(w.word, 60) collate "C"
                 from unnest(regexp_split_to_array(lower(left(coalesce(name, ''), 1000)),
                                                   '[[:space:]!-/:-@[-`{-~]+')) as w (word)
                where w.word <> ''
                limit 40);

create table plan_word (
  org_id   uuid             not null default app_org(),
  word     text collate "C" not null,
  plan_id  uuid             not null,
  primary key (org_id, word, plan_id)
);

alter table plan_word enable row level security;
alter table plan_word force row level security;
create policy tenant on plan_word using (org_id = app_org()) with check (org_id = app_org());
grant select, insert on plan_word to waybook_app;

-- Time before which no step of the plan can stall; null if the plan is not executing or no step was
-- in progress at the last check. Calls of agents seldom change the column, so that they can still
-- update the row in place.
alter table plan add column stall_check_at timestamptz;
create index plan_stall_check on plan (org_id, stall_check_at) where stall_check_at is not null;

-- Plans that ended and plans that failed, by the time of their end.
create index plan_ended on plan (org_id, completed_at) where completed_at is not null;
create index plan_failed on plan (org_id, completed_at) where status = 'failed';
-- Created again as the newer index of plans that ended: without statistics, it is the one used for
-- lists by activity.
drop index plan_closed_activity;
create index plan_closed_activity on plan (org_id, active_minute) where completed_at is not null;

-- Time since which an open run waits for a person's feedback on its completed stages.
alter table run add column awaiting_since timestamptz;

-- Row-level security hides the rows of an org from everyone outside the org, also from the owner, so
-- the rows of each org are filled in within that org.
do $$
declare
  one_org uuid;
begin
  set local app.sweep = 'on';
  for one_org in select org_id from org loop
    perform set_config('app.org_id', one_org::text, true);
    insert into plan_word (org_id, word, plan_id)
    select p.org_id, w.word, p.id
      from plan p
     cross join lateral unnest(app_name_parts(p.name)) as w (word)
     where p.org_id = one_org;
    update plan set stall_check_at = updated_at where org_id = one_org and status = 'executing';
    update run r
       set awaiting_since = g.since
      from (select run_id, max(completed_at) as since
              from stage_run
             where org_id = one_org
             group by run_id
            having bool_and(completed_at is not null) and bool_or(feedback is null)) g
     where r.org_id = one_org and g.run_id = r.id
       and r.completed_at is null and r.canceled_at is null;
  end loop;
  perform set_config('app.org_id', '', true);
  set local app.sweep = 'off';
end
$$;

create index run_awaiting on run (org_id, awaiting_since, id) where awaiting_since is not null;

-- The condition does not name the closing time, because most changes of a step could not be made in
-- place then.
create index stage_step_failed on stage_step (org_id, run_id) where failed > 0;

-- On a table without statistics, an index that begins with the org seems to find one row by the org
-- alone. A lookup by id then used the newest such index and read all rows of the org, until the
-- table was analyzed. These indexes begin with another column, so that only the primary key serves
-- a lookup by id.
drop index plan_short_key, plan_step_short_key, review_short_key, run_short_key, job_short_key;
create unique index plan_short_key on plan (short_key, org_id);
create unique index plan_step_short_key on plan_step (short_key, org_id);
create unique index review_short_key on review (short_key, org_id);
create unique index run_short_key on run (short_key, org_id);
create unique index job_short_key on job (short_key, org_id);
drop index plan_status, plan_creator, job_of_run;
alter table plan_step
  drop constraint plan_step_org_id_plan_id_step_order_key,
  add constraint plan_step_place unique (plan_id, org_id, step_order) deferrable initially deferred;
create index plan_status on plan (status, org_id, id);
create index plan_creator on plan_brief (created_by, org_id, plan_id);
create index job_of_run on job (run_id, org_id);
