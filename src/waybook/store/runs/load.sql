-- name: load_run
-- Before a change, this runs first and locks the run, so that each transaction sees which jobs
-- earlier transactions completed.
select r.id::text, r.name, r.dag_slug, r.dag_version, r.completed_at, r.audit_seq, r.audit_hash,
       app_now() as now, r.usage, r.updated_at, r.canceled_at, r.canceled_by, r.cancel_reason,
       r.copied_from::text, r.copied_seq, r.lists
  from run r
 where r.org_id = :org and r.id = %(run_id)s;

-- name: load_stages
select stage_slug as slug, models, prior, started_at, completed_at, feedback, feedback_at, feedback_by
  from stage_run
 where org_id = :org and run_id = %(run_id)s
 order by started_at, stage_slug;

-- name: load_steps
select stage_slug as stage, step_key as key, total, opened_at, done, failed, closed_at
  from stage_step
 where org_id = :org and run_id = %(run_id)s;

-- name: run_brief
select input, created_at, created_by
  from run_brief
 where org_id = :org and run_id = %(run_id)s;

-- name: runs_by_activity
-- Return a list of runs, most recent activity first, without document counts. Open and ended runs
-- have separate indexes by the minute of their last activity. The runs of one minute are sorted,
-- and limited before the filters, as in `plans_by_activity`.
select :row_of_run, null::bigint as documents_available, null::timestamptz as awaiting_since
  from (select r.*
          from ((select r.id, r.name, r.dag_slug, r.dag_version, r.updated_at, r.completed_at,
                        r.canceled_at, r.lists, r.usage
                   from (select r.*
                           from run r
                          where r.org_id = :org
                            and r.id < %(before)s::text
                            and coalesce(%(state)s::text, '') not in ('completed', 'canceled')
                            and r.completed_at is null
                            and r.canceled_at is null
                          order by r.active_minute desc, r.updated_at desc, r.id desc
                          limit :limit_of_all_runs) r
                   :run_is_asked_for
                  order by r.active_minute desc, r.updated_at desc, r.id desc
                  limit %(most)s)
                 union all
                (select r.id, r.name, r.dag_slug, r.dag_version, r.updated_at, r.completed_at,
                        r.canceled_at, r.lists, r.usage
                   from (select r.*
                           from run r
                          where r.org_id = :org
                            and r.id < %(before)s::text
                            and coalesce(%(state)s::text, 'completed') in ('completed', 'canceled')
                            and (r.completed_at is not null or r.canceled_at is not null)
                          order by r.active_minute desc, r.updated_at desc, r.id desc
                          limit :limit_of_all_runs) r
                   :run_is_asked_for
                  order by r.active_minute desc, r.updated_at desc, r.id desc
                  limit %(most)s)) r
         order by r.updated_at desc, r.id desc
         limit %(most)s) r
  join run_brief b on b.org_id = :org and b.run_id = r.id
 order by r.updated_at desc, r.id desc;

-- name: runs_by_start
-- Return a list of runs, last started first, with the number of documents available to read.
select :row_of_run, :documents_of_listed_run as documents_available,
       null::timestamptz as awaiting_since
  from :runs_asked_for
 order by r.id desc
 limit %(most)s;

-- name: count_runs
-- Return the number of runs in each state that people see, and whether there may be more. Of open,
-- completed and canceled runs, only a limited number of the latest is read.
select w.state, count(*) as runs, sum(count(*)) over () >= %(most)s as is_minimum
  from (select r.*
          from run r
         where r.org_id = :org and r.completed_at is null and r.canceled_at is null
         order by r.active_minute desc
         limit %(most)s) r
 cross join lateral :state_of_listed_run w
 group by w.state
 union all
select 'completed', count(*), count(*) >= %(most)s
  from (select
          from run r
         where r.org_id = :org and r.completed_at is not null
         order by r.completed_at desc
         limit %(most)s) r
 union all
select 'canceled', count(*), count(*) >= %(most)s
  from (select
          from run r
         where r.org_id = :org and r.canceled_at is not null
         order by r.canceled_at desc
         limit %(most)s) r;

-- name: runs_with_text
-- Return runs whose id begins with a text or whose name contains the text. Documents are counted
-- only if the runs are ordered by their start. Runs are found as in `plans_with_text`.
with :words_asked,
rarest as materialized (
  select a.first, a.last
    from asked a
   cross join lateral (select count(*) as runs
                         from (select
                                 from run_word n
                                where n.org_id = :org and n.word >= a.first and n.word < a.last
                                limit %(named)s) n) c
   order by c.runs, length(a.first) desc, a.first
   limit 1
),
walked as materialized (
  select r.id
    from (select r.id, r.name
            from run r
           where r.org_id = :org and r.id < %(before)s::text
           order by r.id desc
           limit %(walked)s) r
   where :run_has_text
   order by r.id desc
   limit %(enough)s)
select :row_of_run,
       case when not %(by_activity)s then :documents_of_listed_run end as documents_available,
       null::timestamptz as awaiting_since
  from (select k.id from walked k
         union
        (select i.id
           from run i
          where i.org_id = :org
            and i.id >= %(first_id)s::text and i.id <= %(last_id)s::text
            and i.id < %(before)s::text
          order by i.id desc
          limit %(walked)s)
         union
        select n.id
          from (select n.run_id as id
                  from rarest a
                 cross join lateral (select n.run_id
                                       from run_word n
                                      where n.org_id = :org
                                        and n.word = a.first
                                        and n.run_id < %(before)s::text
                                      order by n.run_id desc
                                      limit %(named)s) n
                 union all
                select n.run_id
                  from rarest a
                 cross join lateral (select n.run_id
                                       from run_word n
                                      where n.org_id = :org
                                        and n.word > a.first and n.word < a.last
                                      limit %(named)s) n) n
         where (select count(*) from walked) < %(enough)s) f
 cross join :runs_asked_for
   and r.id = f.id
   and (:run_has_text or r.id >= %(first_id)s::text and r.id <= %(last_id)s::text)
 order by case when %(by_activity)s then r.updated_at end desc, r.id desc
 limit %(most)s;

-- name: awaiting_runs
-- Return runs that wait for a person's feedback on a completed stage, longest waiting first. The
-- columns are those of `runs_by_activity`.
select r.id::text, r.name, r.dag_slug, r.dag_version, b.created_at, b.created_by, r.updated_at,
       r.completed_at, r.canceled_at, app_now() as now, r.lists, g.stages,
       (r.usage ->> 'cost_micros')::bigint as cost_micros,
       null::bigint as documents_available, r.awaiting_since
  from (select r.*
          from run r
         where r.org_id = :org and r.awaiting_since is not null
         order by r.awaiting_since, r.id
         limit %(most)s) r
  join run_brief b on b.org_id = :org and b.run_id = r.id
  cross join lateral (
         select json_agg(json_build_array(g.stage_slug, true, g.feedback is not null, 0, 0,
                                          g.models)
                         order by g.started_at, g.stage_slug) as stages
           from stage_run g
          where g.org_id = :org and g.run_id = r.id) g
 order by r.awaiting_since, r.id;

-- name: failed_stages_of_runs
-- Return the failed stages of open runs, each with the job that failed last; longest waiting first.
select f.id::text as run_id, f.name as run_name, j.completed_at as at,
       json_build_array(f.stage_slug, j.step_key, j.model, j.attempt, j.error,
                        array[j.held_by, j.held_session], j.completed_at, j.out_of_retries, j.jobs) as failure
  from :failed_stages
  cross join lateral (select j.step_key, j.model, j.attempt,
                             left(coalesce(j.error, ''), %(wide)s) as error, j.held_by,
                             j.held_session, j.completed_at, j.status = 'retry_loop_failed' as out_of_retries,
                             count(*) over () as jobs
                        from job j
                       where j.org_id = :org and j.run_id = f.id
                         and j.stage_slug = f.stage_slug
                         and j.status in ('failed', 'retry_loop_failed')
                         and j.job_type <> 'RENDER'
                       order by j.completed_at desc, j.id
                       limit 1) j
 order by j.completed_at, f.id, f.stage_slug
 limit %(shown)s;

-- name: run_recent_events
select e.seq, e.at, e.event, e.actor, e.channel, e.session, d.action,
       coalesce(nullif(d."stepKey", ''), d."stageSlug") as subject
  from audit_entry e
 cross join lateral json_to_record(coalesce(e.brief, e.details)) as d (
         action text, "stepKey" text, "stageSlug" text)
 where e.org_id = :org and e.subject_id = %(run_id)s
 order by e.seq desc
 limit %(most)s;

-- name: run_rows
-- Return all rows that a run's audit covers, for a comparison with the rows rebuilt from the audit.
select 'run' as entity, r.id::text, json_build_object(:audit_of_run, :audit_of_run_brief) as values
  from run r
  join run_brief b on b.org_id = :org and b.run_id = r.id
 where r.org_id = :org and r.id = %(run_id)s
 union all
select 'stage_run', g.stage_slug, json_build_object(:audit_of_stage_run)
  from stage_run g
 where g.org_id = :org and g.run_id = %(run_id)s
 union all
select 'stage_step', replace(replace(s.stage_slug, '~', '~0'), '/', '~1') || '/' || s.step_key,
       json_build_object(:audit_of_stage_step)
  from stage_step s
 where s.org_id = :org and s.run_id = %(run_id)s
 union all
select 'job', j.id::text, json_build_object(:audit_of_job)
  from job j
 where j.org_id = :org and j.run_id = %(run_id)s
 union all
select 'job_part', p.job_id::text, json_build_object(
         'part', p.part, 'content_hash', encode(sha256(convert_to(p.content, 'UTF8')), 'hex'))
  from job_part p
 where p.org_id = :org and p.run_id = %(run_id)s
 union all
select 'document', d.id::text, json_build_object(
         'stage_slug', d.stage_slug, 'step_key', d.step_key, 'job_id', d.job_id,
         'document_key', d.document_key, 'model', d.model, 'lineage', d.lineage,
         'reviewer', d.reviewer, 'version', d.version, 'copied_from', d.copied_from,
         'content_hash', encode(sha256(convert_to(d.content, 'UTF8')), 'hex'))
  from document d
 where d.org_id = :org and d.run_id = %(run_id)s
 union all
select 'rendered_document', h.id::text, json_build_object(
         'document_id', h.document_id, 'job_id', h.job_id, 'created_at', h.created_at,
         'content_hash',
         encode(sha256(convert_to(h.markdown || chr(31) || h.html, 'UTF8')), 'hex'))
  from rendered_document h
 where h.org_id = :org and h.run_id = %(run_id)s
 union all
select 'late_result', l.id::text, json_build_object(
         'job_id', l.job_id, 'attempt', l.attempt, 'created_at', l.created_at,
         'created_by', l.created_by,
         'content_hash', encode(sha256(convert_to(l.content, 'UTF8')), 'hex'))
  from late_result l
 where l.org_id = :org and l.run_id = %(run_id)s
 union all
select 'usage', u.id::text, json_build_object(:audit_of_usage)
  from usage u
 where u.org_id = :org and u.run_id = %(run_id)s
 union all
select 'comment', m.id::text, json_build_object(:audit_of_comment)
  from comment m
 where m.org_id = :org and m.run_id = %(run_id)s;

-- name: definition
select :row_of_definition
  from dag_definition d
 where d.org_id = :org
   and d.slug = %(slug)s and (%(version)s::integer is null or d.version = %(version)s::integer)
 order by d.version desc
 limit 1;

-- name: lock_definition
-- Serialize transactions that add versions of this workflow definition.
select pg_advisory_xact_lock(hashtextextended(:org::text || '/' || %(slug)s, 0));

-- name: any_definition
select 1 from dag_definition d where d.org_id = :org limit 1;

-- name: definitions
select distinct on (d.slug) :row_of_definition
  from dag_definition d where d.org_id = :org
 order by d.slug, d.version desc;

-- name: definitions_named
select :row_of_definition
  from dag_definition d
  join json_to_recordset(%(named)s::json) as n (slug text, version integer)
    on d.slug = n.slug and d.version = n.version
 where d.org_id = :org;

-- name: versions
select d.version, d.created_at, d.created_by
  from dag_definition d
 where d.org_id = :org and d.slug = %(slug)s
 order by d.version desc
 limit %(most)s;

-- name: workflow_runs
-- Return the newest runs of a workflow, last started first, out of the newest runs of the org.
select r.id::text, r.name, b.created_at, r.completed_at, r.canceled_at,
       (r.usage ->> 'cost_micros')::bigint as cost_micros,
       exists (select from stage_step s where s.org_id = :org
                                          and s.run_id = r.id
                                          and s.failed > 0
                                          and s.closed_at is null) as has_failed
  from (select n.*
          from (select w.id, w.name, w.dag_slug, w.completed_at, w.canceled_at, w.usage
                  from run w
                 where w.org_id = :org
                 order by w.id desc
                 limit 2000) n
         where n.dag_slug = %(slug)s
         order by n.id desc
         limit %(most)s) r
  join run_brief b on b.org_id = :org and b.run_id = r.id
 order by r.id desc;

-- name: run_of_job
-- This is a separate query, so that later statements can filter by run.
select run_id::text from job where org_id = :org and id = %(job_id)s;
