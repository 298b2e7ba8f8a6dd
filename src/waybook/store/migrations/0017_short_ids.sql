-- Short ids of plans, steps, runs, jobs and reviews. A short id encodes a key, which is a hash of
-- the full id; core/short_ids computes the same key.
--
-- The key is a generated column and not only the expression of an index: under row-level security
-- an index serves a condition only if all its functions are marked leakproof, and the function of an
-- expression is not. A key that another row of the org has is refused, and the call is decided again
-- with new ids.

create function app_short_key(id uuid) returns bigint
  language sql immutable strict parallel safe
  return (('x' || encode(substring(sha256(uuid_send(id)) from 1 for 8), 'hex'))::bit(64)::bigint
          & 9223372036854775807) % 26439622160671;

alter table plan
  add column short_key bigint not null generated always as (app_short_key(id)) stored;
alter table plan_step
  add column short_key bigint not null generated always as (app_short_key(id)) stored;
alter table review
  add column short_key bigint not null generated always as (app_short_key(id)) stored;
alter table run
  add column short_key bigint not null generated always as (app_short_key(id)) stored;
alter table job
  add column short_key bigint not null generated always as (app_short_key(id)) stored;

create unique index plan_short_key on plan (org_id, short_key);
create unique index plan_step_short_key on plan_step (org_id, short_key);
create unique index review_short_key on review (org_id, short_key);
create unique index run_short_key on run (org_id, short_key);
create unique index job_short_key on job (org_id, short_key);
