-- Fill an org with plans. Half of them are closed, and their activity is spread over 90 days. Of the
-- open plans, one in 25 has a step in progress, one in 500 a failed step and one in 250 an open
-- review. The benchmark inserts the org and the number of plans into this text. The ids are the same
-- every time: if they were random, one of six fills with 1,000,000 plans would fail, because two of
-- the 3,000,000 steps would get the same short id, which the unique index refuses.
--
-- To save time, indexes are built after all rows are written, and foreign keys are not checked.
set session_replication_role = replica;
set maintenance_work_mem = '1GB';
create temporary table dropped as
select i.indexrelid as id, replace(pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON ') as definition
  from pg_index i
  join pg_class t on t.oid = i.indrelid
 where t.relnamespace = 'public'::regnamespace
   and t.relname in ('plan', 'plan_word', 'plan_brief', 'plan_step', 'step_brief', 'review',
                     'audit_entry', 'run', 'run_word', 'run_brief', 'stage_run', 'stage_step')
   and not exists (select from pg_constraint c where c.conindid = i.indexrelid);
do $$
declare
  index_id regclass;
begin
  for index_id in select id from dropped loop
    execute 'drop index ' || index_id;
  end loop;
end
$$;
-- The same as `encode_id` in core/ids.py.
create function pg_temp.id_of(number bigint) returns text language plpgsql as $$
declare
  alphabet constant text := '23456789abcdefghjkmnpqrstuvwxyz';
  digits text := '';
  total bigint := 0;
begin
  for place in reverse 10..0 loop
    digits := substr(alphabet, 1 + (number % 31)::integer, 1) || digits;
    total := total + (place + 2) * (number % 31);
    number := number / 31;
  end loop;
  return digits || substr(alphabet, 1 + ((31 - total % 31) % 31)::integer, 1);
end
$$;
create temporary table bench as
select n, first, pg_temp.id_of(first) as id, made, case when n <= 15000 and n % 50 in (1, 3) then now() - interval '10 minutes' * random()
                  else made + (now() - made) * random() end as active, n % 2 = 0 as closed
  from (select n, now() - interval '90 days' * (1 - n::float8 / :plans) as made,
               (1700000000000 + 7776000000 * n / :plans) * 4096 as first
          from generate_series(1, :plans) n) t;
insert into plan (org_id, id, name, status, revision, audit_seq, audit_hash, updated_at,
                  completed_at, stall_check_at)
select ':org', id, 'Compare ' || md5(n::text) || ' in region ' || n % 997,
       case when closed then 'completed' when n % 500 = 1 then 'awaiting_review'
            when n <= 15000 and n % 50 < 4 then 'executing' else 'planning' end,
       1, 3, '\x00', active, case when closed then active end,
       case when not closed and n % 500 <> 1 and n <= 15000 and n % 50 < 4
            then active + interval '30 minutes' end
  from bench;
insert into plan_word (org_id, word, plan_id)
select p.org_id, w.word, p.id
  from plan p
 cross join unnest(app_name_parts(p.name)) as w (word)
 order by w.word, p.id;
insert into plan_brief (org_id, plan_id, research_question, created_at, created_by)
select ':org', id, 'Which of them?', made, 'user-' || n % 40 from bench;
insert into plan_step (org_id, id, plan_id, step_order, step_type, title, status, attempt,
                       in_progress_since, held_by, completed_at, fail_reason)
select ':org', pg_temp.id_of(first + k), b.id, k, 'search', 'Step ' || k, s.status, 1,
       case when s.status = 'in_progress' then b.active end,
       case when s.status = 'in_progress' then 'agent-' || n % 300 end,
       case when s.status = 'completed' then b.active end,
       case when s.status = 'failed' then 'No source answered.' end
  from bench b
 cross join generate_series(1, 3) k
 cross join lateral (select case when closed or k = 1 then 'completed'
                                 when k = 2 and n % 1000 = 3 then 'failed'
                                 when k = 2 and n % 500 = 1 then 'awaiting_input'
                                 when k = 2 and n <= 15000 and n % 50 < 4 then 'in_progress'
                                 else 'pending' end as status) s;
insert into step_brief (org_id, step_id, instructions)
select org_id, id, 'Look it up.' from plan_step;
insert into review (org_id, id, plan_id, step_id, summary, questions, requested_at, requested_by)
select org_id, id, plan_id, id, 'Right?', '[]', now(), 'ann'
  from plan_step where status = 'awaiting_input';
insert into audit_entry (org_id, subject_id, seq, at, subject, event, actor, channel, details, hash)
select ':org', id, k, made + (active - made) * (k / 3.0), 'plan',
       case when n % 1000 = 3 and k = 3 then 'step_failed' when k = 1 then 'plan_modified'
            else 'step_started' end,
       'agent-' || n % 300, case when n % 100 = 0 then 'cli' else 'mcp' end, '{}', '\x00'
  from bench cross join generate_series(1, 3) k;
insert into dag_definition (org_id, slug, version, name, body, body_hash, created_at, created_by)
values (':org', 'bench', 1, 'Bench', ':body', '\x00', now(), 'ann');
insert into run (org_id, id, name, dag_slug, dag_version, audit_seq, audit_hash, updated_at,
                 completed_at, awaiting_since)
select ':org', id, 'Run ' || md5(n::text) || ' in region ' || n % 997, 'bench', 1, 1, '\x00', active,
       case when closed then active end,
       case when not closed and n % 500 = 1 then active end
  from bench where n % 10 < 2;
insert into run_word (org_id, word, run_id)
select r.org_id, w.word, r.id
  from run r
 cross join unnest(app_name_parts(r.name)) as w (word)
 order by w.word, r.id;
insert into run_brief (org_id, run_id, input, created_at, created_by)
select r.org_id, r.id, '"x"', b.made, 'ann' from run r join bench b on b.id = r.id;
insert into stage_run (org_id, run_id, stage_slug, models, prior, started_at, completed_at)
select r.org_id, r.id, 's', '[]', '{}', b.made, case when closed or n % 500 = 1 then b.active end
  from run r join bench b on b.id = r.id;
insert into stage_step (org_id, run_id, stage_slug, step_key, total, done, failed, opened_at,
                        closed_at)
select r.org_id, r.id, 's', 'k', 3, 1, case when n % 1000 = 501 then 1 else 0 end, b.made,
       case when closed then b.active end
  from run r join bench b on b.id = r.id;
do $$
declare
  definition text;
begin
  -- Create the indexes in the order of the migrations: without statistics, PostgreSQL prefers the
  -- newest index.
  for definition in select d.definition from dropped d order by d.id loop
    execute definition;
  end loop;
end
$$;

