-- Full-text search in plans, steps, results, runs and documents. Each query ranks a limited number
-- of matching rows. If the server cannot use the full-text index (`indexed` is false), only a
-- limited number of the newest rows is searched, which the primary key selects; ids are ordered by
-- time.

-- name: plans
-- Return plans whose id, name or research question matches, best first.
with :text_asked
select p.id::text, p.name, null::text as place, to_json(left(b.research_question, %(brief)s)) as body,
       p.updated_at as at, p.id::text as plan_id, null::text as step_id, null::text as run_id,
       null::text as job_id, null::text as resource_id
  from (select m.id, max(m.rank) as rank
          from ((select p.id, 1 + ts_rank(p.words, (select name from asked)) as rank
                   from plan p
                  where p.words @@ (select name from asked)
                    and p.id >= case when %(indexed)s::boolean then %(first)s::uuid
                                     else coalesce((select n.id from plan n order by n.id desc
                                                    offset %(newest)s limit 1), %(first)s::uuid) end
                  limit %(candidates)s)
                union all
                (select b.plan_id, ts_rank(b.words, (select words from asked))
                   from plan_brief b
                  where b.words @@ (select words from asked)
                    and b.plan_id >= case when %(indexed)s::boolean then %(first)s::uuid
                                          else coalesce((select n.plan_id from plan_brief n
                                                          order by n.plan_id desc
                                                         offset %(newest)s limit 1),
                                                        %(first)s::uuid) end
                  limit %(candidates)s)
                union all
                select %(id)s::uuid, 10 where %(id)s::uuid is not null) m
         group by m.id
         order by max(m.rank) desc, m.id desc
         limit %(most)s) h
  join plan p on p.id = h.id
  join plan_brief b on b.plan_id = h.id
 order by h.rank desc, h.id desc;

-- name: steps
-- Return steps whose id, title or instructions match, best first.
with :text_asked
select s.id::text, :title_of_step as name, p.name as place,
       to_json(left(b.instructions, %(brief)s)) as body,
       coalesce(s.completed_at, s.in_progress_since, p.updated_at) as at, s.plan_id::text,
       s.id::text as step_id, null::text as run_id, null::text as job_id, null::text as resource_id
  from (select m.id, max(m.rank) as rank
          from ((select s.id, 1 + ts_rank(s.words, (select name from asked)) as rank
                   from plan_step s
                  where s.words @@ (select name from asked)
                    and s.id >= case when %(indexed)s::boolean then %(first)s::uuid
                                     else coalesce((select n.id from plan_step n order by n.id desc
                                                    offset %(newest)s limit 1), %(first)s::uuid) end
                  limit %(candidates)s)
                union all
                (select b.step_id, ts_rank(b.words, (select words from asked))
                   from step_brief b
                  where b.words @@ (select words from asked)
                    and b.step_id >= case when %(indexed)s::boolean then %(first)s::uuid
                                          else coalesce((select n.step_id from step_brief n
                                                          order by n.step_id desc
                                                         offset %(newest)s limit 1),
                                                        %(first)s::uuid) end
                  limit %(candidates)s)
                union all
                select %(id)s::uuid, 10 where %(id)s::uuid is not null) m
         group by m.id
         order by max(m.rank) desc, m.id desc
         limit %(most)s) h
  join plan_step s on s.id = h.id
  join step_brief b on b.step_id = h.id
  join plan p on p.id = s.plan_id
 order by h.rank desc, h.id desc;

-- name: results
-- Return steps whose result matches, best first. Only the beginning of a large result is read.
with :text_asked
select s.id::text, :title_of_step as name, p.name as place,
       case when length(r.result_summary::text) <= %(long)s then r.result_summary
            else to_json(left(r.result_summary::text, %(long)s)) end as body,
       coalesce(s.completed_at, p.updated_at) as at, s.plan_id::text, s.id::text as step_id,
       null::text as run_id, null::text as job_id, null::text as resource_id
  from (select m.step_id, ts_rank(m.words, (select words from asked)) as rank
          from (select r.step_id, r.words
                  from step_result r
                 where r.words @@ (select words from asked)
                   and r.step_id >= case when %(indexed)s::boolean then %(first)s::uuid
                                         else coalesce((select n.step_id from step_result n
                                                         order by n.step_id desc
                                                        offset %(newest)s limit 1),
                                                       %(first)s::uuid) end
                 limit %(candidates)s) m
         order by rank desc, m.step_id desc
         limit %(most)s) h
  join step_result r on r.step_id = h.step_id
  join plan_step s on s.id = h.step_id
  join plan p on p.id = s.plan_id
 order by h.rank desc, h.step_id desc;

-- name: runs
-- Return runs whose id, name or input matches, best first.
with :text_asked
select r.id::text, r.name, null::text as place,
       case when length(b.input::text) <= %(long)s then b.input
            else to_json(left(b.input::text, %(long)s)) end as body,
       r.updated_at as at, null::text as plan_id, null::text as step_id, r.id::text as run_id,
       null::text as job_id, null::text as resource_id
  from (select m.id, max(m.rank) as rank
          from ((select r.id, 1 + ts_rank(r.words, (select name from asked)) as rank
                   from run r
                  where r.words @@ (select name from asked)
                    and r.id >= case when %(indexed)s::boolean then %(first)s::uuid
                                     else coalesce((select n.id from run n order by n.id desc
                                                    offset %(newest)s limit 1), %(first)s::uuid) end
                  limit %(candidates)s)
                union all
                (select b.run_id, ts_rank(b.words, (select words from asked))
                   from run_brief b
                  where b.words @@ (select words from asked)
                    and b.run_id >= case when %(indexed)s::boolean then %(first)s::uuid
                                         else coalesce((select n.run_id from run_brief n
                                                         order by n.run_id desc
                                                        offset %(newest)s limit 1),
                                                       %(first)s::uuid) end
                  limit %(candidates)s)
                union all
                select %(id)s::uuid, 10 where %(id)s::uuid is not null) m
         group by m.id
         order by max(m.rank) desc, m.id desc
         limit %(most)s) h
  join run r on r.id = h.id
  join run_brief b on b.run_id = h.id
 order by h.rank desc, h.id desc;

-- name: documents
-- Return documents of runs whose text matches, best first, each only in its latest version. Only
-- the beginning of a long document is read.
with :text_asked
select d.id::text, d.document_key || ' by ' || d.model as name, r.name as place,
       to_json(left(d.content, %(long)s)) as body, d.created_at as at, null::text as plan_id,
       null::text as step_id, d.run_id::text, d.job_id::text,
       (select h.id::text from rendered_document h where h.document_id = d.id) as resource_id
  from (select m.id, ts_rank(m.words, (select words from asked)) as rank
          from (select d.id, d.words
                  from document d
                 where d.words @@ (select words from asked)
                   and d.id >= case when %(indexed)s::boolean then %(first)s::uuid
                                    else coalesce((select n.id from document n order by n.id desc
                                                   offset %(newest)s limit 1), %(first)s::uuid) end
                   and not exists (select from document n
                                    where n.run_id = d.run_id and n.stage_slug = d.stage_slug
                                      and n.document_key = d.document_key
                                      and n.step_key = d.step_key and n.model = d.model
                                      and n.lineage = d.lineage
                                      and coalesce(n.reviewer, '') = coalesce(d.reviewer, '')
                                      and n.version > d.version)
                 limit %(candidates)s) m
         order by rank desc, m.id desc
         limit %(most)s) h
  join document d on d.id = h.id
  join run r on r.id = d.run_id
 order by h.rank desc, h.id desc;

-- name: workflows
-- Return the latest version of each stored workflow, without its definition.
select distinct on (d.slug) d.slug, d.name, d.created_at as at
  from dag_definition d
 order by d.slug, d.version desc
 limit %(most)s;
