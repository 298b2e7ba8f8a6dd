-- Full-text search in plans, steps, results, runs and documents. Each query ranks a limited number
-- of matching rows. If `indexed` is false, only a limited number of the newest rows is searched, by
-- primary key, and besides the names of all plans and runs by their words. The shared fragments
-- search the tables that a query calls `named` and `texts`. These are not materialized, so that the
-- tables' indexes serve the search.

-- name: plans
with :text_asked,
:words_of_name,
rarest as materialized (
  select a.first, a.last
    from name_word a
   cross join lateral (select count(*) as names
                         from (select
                                 from plan_word n
                                where n.org_id = :org and n.word >= a.first and n.word < a.last
                                limit 500) n) c
   order by c.names, length(a.first) desc, a.first
   limit 1
),
by_word as materialized (
  select n.plan_id as id
    from rarest a
   cross join lateral (select n.plan_id
                         from plan_word n
                        where n.org_id = :org and n.word = a.first
                        order by n.plan_id desc
                        limit 500) n
   union
  select n.plan_id
    from rarest a
   cross join lateral (select n.plan_id
                         from plan_word n
                        where n.org_id = :org and n.word > a.first and n.word < a.last
                        limit 500) n
),
named as not materialized (select p.id, p.words from plan p where p.org_id = :org),
texts as not materialized (select b.plan_id as id, b.words from plan_brief b
                                                          where b.org_id = :org)
select p.id::text, p.name, null::text as place, to_json(left(b.research_question, 20000)) as body,
       p.updated_at as at, p.id::text as plan_id, null::text as step_id, null::text as run_id,
       null::text as job_id, null::text as resource_id
  from :best_named_rows h
  join plan p on p.org_id = :org and p.id = h.id
  join plan_brief b on b.org_id = :org and b.plan_id = h.id
 order by h.rank desc, h.id desc;

-- name: steps
with :text_asked,
by_word as (select null::text as id where false),
named as not materialized (select s.id, s.words from plan_step s where s.org_id = :org),
texts as not materialized (select b.step_id as id, b.words from step_brief b
                                                          where b.org_id = :org)
select s.id::text, :title_of_step as name, p.name as place,
       to_json(left(b.instructions, 20000)) as body,
       coalesce(s.completed_at, s.in_progress_since, p.updated_at) as at, s.plan_id::text,
       s.id::text as step_id, null::text as run_id, null::text as job_id, null::text as resource_id
  from :best_named_rows h
  join plan_step s on s.org_id = :org and s.id = h.id
  join step_brief b on b.org_id = :org and b.step_id = h.id
  join plan p on p.org_id = :org and p.id = s.plan_id
 order by h.rank desc, h.id desc;

-- name: results
-- Only the beginning of a large result is read.
with :text_asked,
texts as not materialized (select r.step_id as id, r.words from step_result r
                                                          where r.org_id = :org),
matching as (
  select t.id, t.words
    from :matching_texts t
   limit 500
)
select s.id::text, :title_of_step as name, p.name as place,
       case when length(r.result_summary::text) <= 100000 then r.result_summary
            else to_json(left(r.result_summary::text, 100000)) end as body,
       coalesce(s.completed_at, p.updated_at) as at, s.plan_id::text, s.id::text as step_id,
       null::text as run_id, null::text as job_id, null::text as resource_id
  from :best_texts h
  join step_result r on r.org_id = :org and r.step_id = h.id
  join plan_step s on s.org_id = :org and s.id = h.id
  join plan p on p.org_id = :org and p.id = s.plan_id
 order by h.rank desc, h.id desc;

-- name: runs
with :text_asked,
:words_of_name,
rarest as materialized (
  select a.first, a.last
    from name_word a
   cross join lateral (select count(*) as names
                         from (select
                                 from run_word n
                                where n.org_id = :org and n.word >= a.first and n.word < a.last
                                limit 500) n) c
   order by c.names, length(a.first) desc, a.first
   limit 1
),
by_word as materialized (
  select n.run_id as id
    from rarest a
   cross join lateral (select n.run_id
                         from run_word n
                        where n.org_id = :org and n.word = a.first
                        order by n.run_id desc
                        limit 500) n
   union
  select n.run_id
    from rarest a
   cross join lateral (select n.run_id
                         from run_word n
                        where n.org_id = :org and n.word > a.first and n.word < a.last
                        limit 500) n
),
named as not materialized (select r.id, r.words from run r where r.org_id = :org),
texts as not materialized (select b.run_id as id, b.words from run_brief b where b.org_id = :org)
select r.id::text, r.name, null::text as place,
       case when length(b.input::text) <= 100000 then b.input
            else to_json(left(b.input::text, 100000)) end as body,
       r.updated_at as at, null::text as plan_id, null::text as step_id, r.id::text as run_id,
       null::text as job_id, null::text as resource_id
  from :best_named_rows h
  join run r on r.org_id = :org and r.id = h.id
  join run_brief b on b.org_id = :org and b.run_id = h.id
 order by h.rank desc, h.id desc;

-- name: documents
-- Return the latest versions of documents whose text matches, best first. Only the beginning of a
-- long document is read.
with :text_asked,
texts as not materialized (select d.* from document d where d.org_id = :org),
matching as (
  select t.id, t.words
    from :matching_texts t
   where not exists (select from document n
                      where n.org_id = :org
                        and n.run_id = t.run_id and n.stage_slug = t.stage_slug
                        and n.document_key = t.document_key
                        and n.step_key = t.step_key and n.model = t.model
                        and n.lineage = t.lineage
                        and coalesce(n.reviewer, '') = coalesce(t.reviewer, '')
                        and n.version > t.version)
   limit 500
)
select d.id::text, d.document_key || ' by ' || d.model as name, r.name as place,
       to_json(left(d.content, 100000)) as body, d.created_at as at, null::text as plan_id,
       null::text as step_id, d.run_id::text, d.job_id::text,
       (select h.id::text from rendered_document h where h.org_id = :org
                                                     and h.document_id = d.id) as resource_id
  from :best_texts h
  join document d on d.org_id = :org and d.id = h.id
  join run r on r.org_id = :org and r.id = d.run_id
 order by h.rank desc, h.id desc;

-- name: workflows
-- Return the latest version of each stored workflow, without its definition.
select distinct on (d.slug) d.slug, d.name, d.created_at as at
  from dag_definition d where d.org_id = :org
 order by d.slug, d.version desc
 limit 500;
