-- name: load_job
select :row_of_job
  from job j
 where j.org_id = :org and j.id = %(job_id)s;

-- name: held_job
-- Return the job that the caller holds and has not submitted. If there are several, return the job
-- claimed first.
select :row_of_job
  from job j
 where j.org_id = :org
   and j.run_id = %(run_id)s
   and j.completed_at is null
   and j.job_type <> 'RENDER'
   and j.status = 'processing'
   and :is_held_by_caller
   and (%(job_type)s::text is null or j.job_type = %(job_type)s::text)
   and (%(model)s::text is null or j.model = %(model)s::text)
 order by j.started_at, j.id
 limit 1;

-- name: claimable_job
-- Lock and return the first claimable job of a run. A job is claimable again if its holder sent no
-- heartbeat for longer than the lease.
select :row_of_job
  from :jobs_to_claim
 limit 1
   for update of j skip locked;

-- name: claimable_job_for_model
-- Lock and return the first claimable job of a run for one model.
select :row_of_job
  from :jobs_to_claim_for_model
 limit 1
   for update of j skip locked;

-- name: run_with_claimable_job
-- Return a run in which the caller holds a job, or else the oldest run with a claimable job.
-- Canceled runs are skipped run by run, so that the number of their open jobs does not matter. Each
-- run is looked up by key, because a join might be planned as a scan of all runs.
with recursive working as (
  (select j.run_id
     from job j
    where j.org_id = :org and j.completed_at is null and j.job_type <> 'RENDER'
    order by j.run_id
    limit 1)
   union all
  select (select j.run_id
            from job j
           where j.org_id = :org
             and j.completed_at is null and j.job_type <> 'RENDER' and j.run_id > w.run_id
           order by j.run_id
           limit 1)
    from working w
   where w.run_id is not null)
select found.run_id::text
  from ((select j.run_id, 1 as turn
           from job j
          where j.org_id = :org
            and j.completed_at is null
            and j.status = 'processing'
            and (select r.canceled_at from run r where r.org_id = :org
                                                   and r.id = j.run_id) is null
            and :is_held_by_caller
            and (%(job_type)s::text is null or j.job_type = %(job_type)s::text)
            and (%(model)s::text is null or j.model = %(model)s::text)
          order by j.run_id
          limit 1)
        union all
        (select w.run_id, 2
           from working w
          where w.run_id is not null
            and (select r.canceled_at from run r where r.org_id = :org
                                                   and r.id = w.run_id) is null
            and exists (select from job j
                         where j.org_id = :org
                           and j.run_id = w.run_id
                           and (%(model)s::text is null or j.model = %(model)s::text)
                           and :job_is_claimable)
          limit 1)) found
 order by found.turn
 limit 1;

-- name: seconds_until_claimable
-- Return the seconds until an open job becomes claimable because its delay or lease ends. Without a
-- run id, the jobs of all runs are considered.
select extract(epoch from min(case when j.status = 'processing'
                                   then greatest(j.seen_at, j.started_at)
                                        + %(lease)s * interval '1 second'
                                   else j.ready_at end) - app_now())::float8 as seconds
  from job j
 where j.org_id = :org
   and j.completed_at is null
   and j.job_type <> 'RENDER'
   and (%(run_id)s::text is null or j.run_id = %(run_id)s::text)
   and (%(job_type)s::text is null or j.job_type = %(job_type)s::text)
   and (%(model)s::text is null or j.model = %(model)s::text)
   and :job_is_in_turn;

-- name: open_jobs
-- Count the open jobs of a run per step, status and model, up to a limit.
select j.stage_slug as stage, j.step_key, j.status, j.model, count(*) as jobs,
       min(j.ready_at) as ready_at
  from (select o.stage_slug, o.step_key, o.status, o.model, o.ready_at, o.rank
          from job o
         where o.org_id = :org
           and o.run_id = %(run_id)s and o.completed_at is null and o.job_type <> 'RENDER'
         order by o.rank, o.id
         limit 1000) j
 group by j.stage_slug, j.step_key, j.status, j.model
 order by min(j.rank), j.status, j.model
 limit %(most)s;

-- name: workers
select j.held_by, j.held_session, j.stage_slug as stage, j.step_key, j.model, j.attempt,
       j.started_at as since, j.id::text as job_id
  from :jobs_in_progress
 limit %(most)s;

-- name: failed_jobs
select :row_of_job
  from job j
 where j.org_id = :org
   and j.run_id = %(run_id)s
   and j.stage_slug = %(stage)s
   and j.status in ('failed', 'retry_loop_failed')
   and (%(step_key)s::text is null or j.step_key = %(step_key)s::text)
 order by j.rank, j.id;

-- name: parts
-- Return the texts of the jobs that this job continues, first to last. Each job is looked up by
-- key, because a join planned while there are few jobs is slow with many.
with recursive before as (
  select (select j.continues_id from job j where j.org_id = :org
                                             and j.id = %(job_id)s) as id, 1 as back
   union all
  select (select j.continues_id from job j where j.org_id = :org and j.id = b.id), b.back + 1
    from before b
   where b.id is not null)
select (select p.content from job_part p where p.org_id = :org and p.job_id = b.id) as content
  from before b
 where b.id is not null
 order by b.back desc;

-- name: to_render
-- Lock and return the render jobs of a run that no other process has locked, oldest first.
select :row_of_job,
       d.document_key, d.model as document_model, d.lineage, d.version, d.content
  from job j
  join document d on d.org_id = :org and d.id = j.document_id
 where j.org_id = :org
   and j.run_id = %(run_id)s
   and j.completed_at is null
   and j.job_type = 'RENDER'
 order by j.id
 limit %(most)s
   for update of j skip locked;

-- name: runs_to_render
select distinct j.run_id::text
  from job j
 where j.org_id = :org and j.completed_at is null and j.job_type = 'RENDER'
 limit %(most)s;

-- name: failures
-- Return the permanently failed jobs of a run with their errors, in the order of the steps.
select j.id::text as job_id, j.stage_slug as stage, j.step_key, j.job_type, j.model, j.attempt,
       coalesce(j.error, '') as error, j.completed_at as at, j.held_by, j.held_session
  from job j
 where j.org_id = :org
   and j.run_id = %(run_id)s
   and j.status in ('failed', 'retry_loop_failed')
 order by j.rank, j.id
 limit %(most)s;

-- name: finished_jobs
-- For each part (`unit`) of a step, return the last job that submitted documents.
select distinct on (j.stage_slug, j.step_key, (j.unit ->> 'number')::integer) :row_of_job
  from job j
 where j.org_id = :org
   and j.run_id = %(run_id)s
   and j.job_type <> 'RENDER'
   and j.status in ('completed', 'superseded')
   and not exists (select from job c where c.org_id = :org
                                       and c.run_id = %(run_id)s and c.continues_id = j.id)
 order by j.stage_slug, j.step_key, (j.unit ->> 'number')::integer, j.completed_at desc, j.id desc;

-- name: original_documents
-- Return the latest version of each document of a run, without its text.
select distinct on (d.stage_slug, d.document_key, d.step_key, d.model, d.lineage,
                    coalesce(d.reviewer, ''))
       d.model, d.lineage, d.reviewer, d.id::text, d.stage_slug as stage, d.step_key,
       d.job_id::text, d.document_key, d.content_hash
  from document d
 where d.org_id = :org and d.run_id = %(run_id)s
 order by d.stage_slug, d.document_key, d.step_key, d.model, d.lineage, coalesce(d.reviewer, ''),
          d.version desc;

-- name: contents
select d.id::text, left(d.content, %(most)s) as content
  from document d
 where d.org_id = :org and d.id = any (%(ids)s);

-- name: content
select d.document_key, d.model, d.version, length(d.content),
       substr(d.content, %(start)s + 1, %(most)s) as content,
       (select j.held_by from job j where j.org_id = :org
                                      and j.id = d.job_id) as by, d.created_at as at
  from document d
 where d.org_id = :org and d.id = %(document_id)s and d.run_id = %(run_id)s;

-- name: document_job
-- Return the latest version of a document, and the job that produced it.
select n.job_id::text, n.version, n.id::text as document_id
  from document d
  join document n on n.org_id = :org and n.run_id = d.run_id and n.stage_slug = d.stage_slug
                 and n.document_key = d.document_key and n.step_key = d.step_key
                 and n.model = d.model and n.lineage = d.lineage
                 and coalesce(n.reviewer, '') = coalesce(d.reviewer, '')
 where d.org_id = :org and d.id = %(document_id)s and d.run_id = %(run_id)s
 order by n.version desc
 limit 1;

-- name: run_of_document
-- Find a document by its id or by the id of its rendered version.
select d.run_id::text, d.id::text as document_id
  from (select %(document_id)s::uuid as id
         union all
        select h.document_id
          from rendered_document h
         where h.org_id = :org and h.id = %(document_id)s) w
 cross join lateral (select d.run_id, d.id
                       from document d
                      where d.org_id = :org and d.id = w.id
                     offset 0) d;

-- name: versions
-- Return all versions of all documents of a run, with the part of the step (`unit`) and the time of
-- the claim of their jobs. Unless `always`, return nothing if no document was regenerated.
select d.id::text, d.stage_slug as stage, d.step_key, d.document_key, d.model, d.lineage,
       d.reviewer, d.version, d.created_at, d.job_id::text, json_build_array(j.model, j.unit) as unit,
       coalesce(j.started_at, d.created_at) as read_at
  from document d
  join job j on j.org_id = :org and j.id = d.job_id
 where d.org_id = :org
   and d.run_id = %(run_id)s
   and (%(always)s::boolean
        or exists (select from document v
                    where v.org_id = :org and v.run_id = %(run_id)s and v.version > 1))
 order by d.version, d.id;

-- name: available
-- Return the latest rendered version of each document of a run.
select distinct on (d.stage_slug, d.document_key, d.step_key, d.model, d.lineage,
                    coalesce(d.reviewer, ''))
       d.stage_slug as stage, d.document_key, d.model, h.id::text as resource_id,
       d.id::text as document_id
  from rendered_document h
  join document d on d.org_id = :org and d.id = h.document_id
 where h.org_id = :org and h.run_id = %(run_id)s
 order by d.stage_slug, d.document_key, d.step_key, d.model, d.lineage, coalesce(d.reviewer, ''),
          d.version desc;

-- name: readable
-- Return the latest rendered version of each document of a run, with its details.
select distinct on (d.stage_slug, d.document_key, d.step_key, d.model, d.lineage,
                    coalesce(d.reviewer, ''))
       :row_of_readable
  from rendered_document h
  join document d on d.org_id = :org and d.id = h.document_id
 where h.org_id = :org and h.run_id = %(run_id)s
 order by d.stage_slug, d.document_key, d.step_key, d.model, d.lineage, coalesce(d.reviewer, ''),
          d.version desc;

-- name: rendered
select d.run_id::text, d.id::text as document_id, d.document_key, d.model, d.lineage, d.version,
       h.created_at, h.markdown, h.html
  from rendered_document h
  join document d on d.org_id = :org and d.id = h.document_id
 where h.org_id = :org and h.id = %(resource_id)s;

-- name: run_texts
-- Return the texts of a run that the audit records only as hashes.
select 'job_part' as entity, p.job_id::text as id, json_build_object('content', p.content) as values
  from job_part p
 where p.org_id = :org and p.run_id = %(run_id)s
 union all
select 'document', d.id::text, json_build_object('content', d.content)
  from document d
 where d.org_id = :org and d.run_id = %(run_id)s
 union all
select 'rendered_document', h.id::text, json_build_object('markdown', h.markdown, 'html', h.html)
  from rendered_document h
 where h.org_id = :org and h.run_id = %(run_id)s
 union all
select 'late_result', l.id::text, json_build_object('content', l.content)
  from late_result l
 where l.org_id = :org and l.run_id = %(run_id)s;
