-- Oldest compatible migration: 0029
--
-- Checks and generated columns that are not parsed again by every statement. PostgreSQL reads their
-- expressions from the catalog and plans them in each statement that writes the table, together with
-- the bodies of SQL functions, which it inlines. It parses the body of a PL/pgSQL function once per
-- connection.

create or replace function app_json_words(org uuid, body json) returns tsvector
  language plpgsql immutable parallel safe
as $$
begin
  return array_to_tsvector(array['@' || org::text])
         || case when length(body::text) <= 100000
                 then json_to_tsvector('english', body, '["string", "numeric"]')
                 else to_tsvector('english', coalesce(left(body::text, 100000), '')) end;
end $$;

create or replace function app_name_words(org uuid, name text) returns tsvector
  language plpgsql immutable parallel safe
as $$
begin
  return array_to_tsvector(array['@' || org::text])
         || to_tsvector('simple', left(coalesce(name, ''), 10000))
         || to_tsvector('english', left(coalesce(name, ''), 10000));
end $$;

create or replace function app_words(org uuid, body text) returns tsvector
  language plpgsql immutable parallel safe
as $$
begin
  return array_to_tsvector(array['@' || org::text])
         || to_tsvector('english', left(coalesce(body, ''), 100000));
end $$;

create or replace function app_short_key(id uuid) returns bigint
  language plpgsql immutable strict parallel safe
as $$
begin
  return (('x' || encode(substring(sha256(uuid_send(id)) from 1 for 8), 'hex'))::bit(64)::bigint
          & 9223372036854775807) % 26439622160671;
end $$;

-- One check per table in place of several. `not valid` skips only the check of the existing rows,
-- which satisfy the checks that are dropped.

create function app_is_plan(status text, completed_at timestamptz) returns boolean
  language plpgsql immutable parallel safe
as $$
begin
  return status = any (case when completed_at is null
                            then '{planning,executing,awaiting_review,stalled}'
                            else '{completed,failed}' end::text[]);
end $$;

alter table plan
  drop constraint plan_check,
  drop constraint plan_status_check;
alter table plan
  add constraint plan_state check (app_is_plan(status, completed_at)) not valid;

create function app_is_step(step_order integer, attempt integer, max_attempts smallint,
                            silent_holders smallint, status text, in_progress_since timestamptz,
                            completed_at timestamptz) returns boolean
  language plpgsql immutable parallel safe
as $$
begin
  return least(step_order, attempt, max_attempts, silent_holders) >= 1
         and status = any (case when completed_at is not null then '{completed,skipped}'
                                when in_progress_since is null then '{pending,awaiting_input,failed}'
                                else '{pending,in_progress,awaiting_input,failed}' end::text[]);
end $$;

alter table plan_step
  drop constraint plan_step_attempt_check,
  drop constraint plan_step_check,
  drop constraint plan_step_check1,
  drop constraint plan_step_max_attempts_check,
  drop constraint plan_step_silent_holders_check,
  drop constraint plan_step_status_check,
  drop constraint plan_step_step_order_check;
alter table plan_step
  add constraint plan_step_state
    check (app_is_step(step_order, attempt, max_attempts, silent_holders, status,
                       in_progress_since, completed_at)) not valid;

create function app_is_job(attempt integer, tries integer, part integer, job_type text,
                           has_unit boolean, status text, completed_at timestamptz) returns boolean
  language plpgsql immutable parallel safe
as $$
begin
  return least(attempt, tries, part - 1) >= 0
         and job_type = any (case when has_unit then '{PLAN,EXECUTE}' else '{RENDER}' end::text[])
         and status = any (case when completed_at is null
                                then '{pending,processing,retrying,waiting}'
                                else '{completed,failed,retry_loop_failed,superseded}' end::text[]);
end $$;

alter table job
  drop constraint job_attempt_check,
  drop constraint job_check,
  drop constraint job_check1,
  drop constraint job_job_type_check,
  drop constraint job_part_check,
  drop constraint job_status_check,
  drop constraint job_tries_check;
alter table job
  add constraint job_state
    check (app_is_job(attempt, tries, part, job_type, unit is not null, status, completed_at))
    not valid;

create function app_is_event(event text) returns boolean
  language plpgsql immutable parallel safe
as $$
begin
  return event = any ('{step_started,step_completed,step_failed,plan_modified,user_reviewed,'
                      'session_resumed,skill_started,skill_completed}'::text[]);
end $$;

alter table audit_entry
  drop constraint audit_entry_event_check;
alter table audit_entry
  add constraint audit_entry_event check (app_is_event(event)) not valid;
