-- name: run_jobs
-- Return a page of the jobs of a run that match the filters, with their usage. Of the other jobs,
-- only the order is read. The index of usage is by run, not by job. Without a filter by model or
-- status, the total comes from the counters of the steps, but it is at least the jobs found so far:
-- a step has more jobs than its counter says if documents were made in parts or rendered.
with found as materialized (
  (select j.id, j.rank, j.model
     from job j
    where j.org_id = :org
      and j.run_id = %(run_id)s
      and %(job_id)s::text is null
      and (%(stage)s::text is null or j.stage_slug = %(stage)s::text)
      and (%(step_key)s::text is null or j.step_key = %(step_key)s::text)
      and (%(model)s::text is null or j.model = %(model)s::text)
      and (%(statuses)s::json is null
           or j.status in (select json_array_elements_text(%(statuses)s::json)))
    order by j.rank, j.model, j.id
    limit %(most)s::integer + 1
   offset %(skipped)s)
   union all
  (select j.id, j.rank, j.model
     from job j
    where j.org_id = :org and j.run_id = %(run_id)s and j.id = %(job_id)s::text)
), page as materialized (
  select f.id,
         case when (select count(*) from found) <= %(most)s
              then %(skipped)s::bigint + (select count(*) from found)
              when %(model)s::text is null and %(statuses)s::json is null
              then greatest(%(skipped)s::bigint + (select count(*) from found),
                            (select sum(s.total)
                               from stage_step s
                              where s.org_id = :org
                                and s.run_id = %(run_id)s
                                and (%(stage)s::text is null or s.stage_slug = %(stage)s::text)
                                and (%(step_key)s::text is null or s.step_key = %(step_key)s::text)))
              else (select count(*)
                      from job c
                     where c.org_id = :org
                       and c.run_id = %(run_id)s
                       and (%(stage)s::text is null or c.stage_slug = %(stage)s::text)
                       and (%(step_key)s::text is null or c.step_key = %(step_key)s::text)
                       and (%(model)s::text is null or c.model = %(model)s::text)
                       and (%(statuses)s::json is null
                            or c.status in (select json_array_elements_text(%(statuses)s::json))))
         end as total
    from (select f.id from found f order by f.rank, f.model, f.id limit %(most)s) f
), used as materialized (
  select u.job_id, :usage_sums
    from usage u
   where u.org_id = :org
     and u.run_id = %(run_id)s
     and u.job_id = any (array(select page.id from page))
   group by u.job_id)
select coalesce(used.input_tokens, 0) as input_tokens,
       coalesce(used.output_tokens, 0) as output_tokens,
       coalesce(used.cost_micros, 0) as cost_micros, coalesce(used.results, 0) as results,
       j.id::text, j.stage_slug as stage, j.step_key, j.job_type, j.model,
       j.unit ->> 'lineage' as lineage, j.unit ->> 'reviewer' as reviewer, j.status, j.attempt,
       j.held_by, j.held_session, j.ready_at, j.started_at, j.completed_at, j.error,
       j.ready_at <= app_now() as is_ready,
       coalesce(greatest(j.seen_at, j.started_at) < app_now() - %(lease)s * interval '1 second',
                false) as is_silent,
       page.total
  from page
 cross join lateral (select j.* from job j where j.org_id = :org and j.id = page.id offset 0) j
  left join used on used.job_id = j.id
 order by j.rank, j.model, j.id;

-- name: job_events
-- Return the audit entries of a job. Entries before and after the only attempt of a completed job
-- are skipped by the index; `strpos` is much cheaper than reading the JSON of the others.
select e.seq, e.at, e.event, e.actor, e.session, d.action, d.attempt, d.error
  from (select e.*, coalesce(e.brief, e.details) as short
          from audit_entry e
         where e.org_id = :org
           and e.subject_id = %(run_id)s
           and e.at >= (select coalesce(max(case when j.attempt = 1 then j.started_at end),
                                        '-infinity')
                          from job j where j.org_id = :org and j.id = %(job_id)s)
           and e.at <= (select coalesce(max(j.completed_at) + interval '1 minute', 'infinity')
                          from job j where j.org_id = :org and j.id = %(job_id)s)
           and strpos(coalesce(e.brief, e.details)::text, %(job_id)s) > 0
        offset 0) e
 cross join lateral json_to_record(e.short) as d (
         action text, attempt bigint, error text, "jobId" text)
 where d."jobId" = %(job_id)s
 order by e.seq
 limit %(most)s;

-- name: attempt_usage
select u.attempt, :usage_sums
  from usage u
 where u.org_id = :org
   and u.run_id = %(run_id)s
   and u.job_id = %(job_id)s
 group by u.attempt
 order by u.attempt;

-- name: model_usage
select u.model, :usage_sums
  from usage u
 where u.org_id = :org and u.run_id = %(run_id)s
 group by u.model
 order by cost_micros desc, u.model
 limit %(most)s;

-- name: job_counts
-- Count the jobs of a run by step, model and status. `job_id` is one of them. Rendering jobs are
-- left out, because the server does them itself.
select j.stage_slug as stage, j.step_key, j.model, j.status, count(*) as jobs,
       min(j.id::text) as job_id
  from job j
 where j.org_id = :org
   and j.run_id = %(run_id)s
   and j.job_type <> 'RENDER'
 group by j.stage_slug, j.step_key, j.model, j.status;

-- name: stage_figures
-- Return the time and cost of a run's jobs by stage and model.
select j.stage_slug as stage, j.model,
       coalesce(sum(extract(epoch from j.completed_at - j.started_at)), 0)::float8 as seconds,
       coalesce(sum(u.cost_micros), 0)::bigint as cost_micros
  from job j
  left join (select u.job_id, sum(u.cost_micros) as cost_micros
               from usage u
              where u.org_id = :org and u.run_id = %(run_id)s
              group by u.job_id) u on u.job_id = j.id
 where j.org_id = :org
   and j.run_id = %(run_id)s
   and j.job_type <> 'RENDER'
 group by j.stage_slug, j.model;

-- name: job_times
-- Return the times of a run's started jobs, latest start first. If there are more, their total
-- comes from the counters of the steps, and counts the parts of a continued job once.
with started as materialized (
  select j.id::text, j.stage_slug as stage, j.step_key, j.model, j.status, j.started_at,
         j.completed_at
    from job j
   where j.org_id = :org
     and j.run_id = %(run_id)s
     and j.job_type <> 'RENDER'
     and j.started_at is not null
   order by j.started_at desc, j.id desc
   limit %(most)s::integer + 1)
select t.*, case when n.shown <= %(most)s::integer then n.shown
                 else greatest(n.shown, (select sum(s.done + s.failed)
                                           from stage_step s where s.org_id = :org
                                                               and s.run_id = %(run_id)s)) end
            ::bigint as total
  from started t
 cross join (select count(*) as shown from started) n
 order by t.started_at desc, t.id desc
 limit %(most)s;

-- name: document_versions
-- Return all versions of the rendered documents with the same key or lineage as this document.
-- Documents with the same key come first.
select :row_of_readable
  from document k
  join document d on d.org_id = :org and d.run_id = k.run_id
                 and (d.stage_slug = k.stage_slug and d.document_key = k.document_key
                      or d.lineage = k.lineage)
  join rendered_document h on h.org_id = :org and h.document_id = d.id
 where k.org_id = :org
   and k.id = (select r.document_id from rendered_document r where r.org_id = :org
                                                               and r.id = %(resource_id)s)
   and k.run_id = %(run_id)s
 order by d.stage_slug <> k.stage_slug or d.document_key <> k.document_key, d.stage_slug,
          d.document_key, d.model, d.lineage, coalesce(d.reviewer, ''), d.version desc
 limit %(most)s;

-- name: step_documents
-- Return all versions of the rendered documents of a step or job, newest first.
select :row_of_readable
  from document d
  join rendered_document h on h.org_id = :org and h.document_id = d.id
 where d.org_id = :org
   and d.run_id = %(run_id)s
   and d.stage_slug = %(stage)s
   and d.step_key = %(step_key)s
   and (%(job_id)s::text is null or d.job_id = %(job_id)s::text)
 order by d.document_key, d.model, d.lineage, coalesce(d.reviewer, ''), d.version desc
 limit %(most)s;

-- name: document_text
select left(h.markdown, %(most)s) as markdown, length(h.markdown)
  from rendered_document h
 where h.org_id = :org
   and h.id = %(resource_id)s
   and h.run_id = %(run_id)s;

-- name: stage_documents
-- Return the latest rendered version of each document of a stage, with the beginning of its text.
select n.*, count(*) over () as total
  from (select distinct on (d.document_key, d.step_key, d.model, d.lineage,
                            coalesce(d.reviewer, ''))
               d.run_id::text, h.id::text as resource_id, d.document_key, d.step_key, d.model,
               d.lineage, left(h.markdown, 600) as beginning
          from rendered_document h
          join document d on d.org_id = :org and d.id = h.document_id
         where h.org_id = :org
           and h.run_id = %(run_id)s
           and d.stage_slug = %(stage)s
         order by d.document_key, d.step_key, d.model, d.lineage, coalesce(d.reviewer, ''),
                  d.version desc) n
 order by n.step_key, n.document_key, n.model, n.lineage
 limit %(most)s;

-- name: finished_runs
-- Return the time, cost and number of jobs of a workflow's completed runs, latest end first. The
-- workflow is given by its slug or by a run. Simulated runs are left out, and copied runs, because
-- the work of their earlier stages was done in another run.
select extract(epoch from r.completed_at - r.created_at)::float8 as seconds,
       (r.usage ->> 'cost_micros')::bigint as cost_micros,
       coalesce((select sum(s.done) from stage_step s where s.org_id = :org
                                                        and s.run_id = r.id), 0)::bigint as jobs
  from (select n.*, b.created_at
          from (select w.id, w.dag_slug, w.completed_at, w.copied_from, w.usage
                  from run w
                 where w.org_id = :org and w.completed_at is not null
                 order by w.completed_at desc
                 limit 2000) n
          join run_brief b on b.org_id = :org and b.run_id = n.id
         where n.dag_slug = coalesce(%(slug)s::text, (select r.dag_slug
                                                from run r
                                               where r.org_id = :org
                                                 and r.id = %(run_id)s::text))
           and n.copied_from is null
           and b.simulated is null
         order by n.completed_at desc, n.id desc
         limit 20) r
 order by r.completed_at desc, r.id desc;

-- name: known_models
-- Return the models with which stages of the org's newest runs were started, most recent first.
select m.model
  from (select r.id
          from run r where r.org_id = :org
         order by r.id desc
         limit 200) n
  join stage_run g on g.org_id = :org and g.run_id = n.id
  cross join lateral json_array_elements_text(g.models) as m(model)
 group by m.model
 order by max(g.started_at) desc, m.model
 limit 20;
