-- name: plan_of_step
-- This is a separate query, so that later statements can filter by plan. Under row-level security,
-- no index serves a comparison with a subquery.
select plan_id::text from plan_step where org_id = :org and id = %(step_id)s;

-- name: load_plan
-- Return the plan without its steps. Before a change, this locks the plan, so that agents change it
-- one at a time and later statements see the state after the wait.
select :row_of_loaded_plan
  from plan p
  join plan_brief b on b.org_id = :org and b.plan_id = p.id
 where p.org_id = :org and p.id = %(plan_id)s;

-- name: lock_if_unchanged
-- Lock the plan if it has not changed since it was cached and the database clock agrees with the
-- call's time. Otherwise all statements sent together with this one fail. Calls that update the
-- plan use `update_plan_if_unchanged` instead.
select :one_row_or_stale as locked, max(same.now) as now
  from (select app_now() as now
          from plan p
         where p.org_id = :org
           and p.id = %(plan_id)s
           and p.audit_seq = %(seq)s
           and p.audit_hash = %(hash)s
           and app_now() >= %(now)s::timestamptz - interval '5 ms'
           and app_now() <= %(now)s::timestamptz + interval '1 s'
           for update of p) as same;

-- name: load_steps
-- Return the state of every step in plan order, with texts only for the requested steps. Where
-- sources are required, also return up to 50 stored sources of each of these steps and of the
-- steps that they were copied from.
select :select_of_plan_step,
       case when s.id = any (%(wanted)s)
            then (select json_build_array(
                           b.instructions, b.result_schema, b.required_sources,
                           case when b.required_sources is not null
                                then (select json_agg(json_build_array(c.id, c.title, c.url))
                                        from (select distinct o.id, o.title, o.url
                                                from :step_and_originals w
                                                join artifact a on a.org_id = :org
                                                               and a.step_id = w.step_id
                                                join artifact_source x on x.org_id = :org
                                                                         and x.artifact_id = a.id
                                                join source o on o.org_id = :org
                                                                and o.id = x.source_id
                                               order by o.id
                                               limit 50) c)
                           end)
                    from step_brief b
                   where b.org_id = :org and b.step_id = s.id)
       end as text
  from plan_step s
 where s.org_id = :org and s.plan_id = %(plan_id)s
 order by s.step_order;

-- name: load_candidates
-- Return every step in plan order, with texts for the requested steps and for those that the caller
-- could claim now or soon. `offset 0` keeps PostgreSQL from searching the first ready step twice,
-- once for each end of the range.
select :select_of_plan_step,
       case when s.id = any (%(wanted)s)
                 or s.status = 'awaiting_input'
                 or s.status = 'in_progress'
                    and (s.held_by is null or :is_held_by_caller)
                 or s.status = 'pending'
                    and s.step_order - first_ready.step_order between 0 and 7
            then (select json_build_array(b.instructions, b.result_schema, b.required_sources)
                    from step_brief b
                   where b.org_id = :org and b.step_id = s.id)
       end as text
  from plan_step s
 cross join (select (select n.step_order
                       from plan_step n
                      where n.org_id = :org
                        and n.plan_id = %(plan_id)s
                        and n.status = 'pending'
                        and (n.depends_on is null
                             or not exists (select from plan_step d
                                             where d.org_id = :org
                                               and d.plan_id = %(plan_id)s
                                               and d.id = any (n.depends_on)
                                               and d.status in ('pending', 'in_progress',
                                                                'awaiting_input')))
                      order by n.step_order
                      limit 1) as step_order
             offset 0) first_ready
 where s.org_id = :org and s.plan_id = %(plan_id)s
 order by s.step_order;

-- name: load_call
-- Return whether an earlier call on the plan had the caller's session, the stored answer of a
-- repeated call, and the plan's conditions.
select :is_known_session as is_known_session,
       (select json_build_array(encode(a.arguments_hash, 'hex'), a.is_error, a.answer)
          from idempotency_answer a
         where a.org_id = :org and a.tool = %(tool)s and a.key = %(key)s) as answer,
       :conditions_of_plan as conditions;

-- name: load_texts
-- Return the texts of these steps in the form that `load_candidates` returns.
select s.id::text, json_build_array(b.instructions, b.result_schema, b.required_sources) as text
  from plan_step s
  join step_brief b on b.org_id = :org and b.step_id = s.id
 where s.org_id = :org and s.plan_id = %(plan_id)s and s.id = any (%(wanted)s);

-- name: left_behind
-- Return the newest artifacts that earlier holders of a step stored for it.
select a.id::text, a.kind, a.title
  from artifact a
 where a.org_id = :org and a.step_id = %(step_id)s
 order by a.created_at desc, a.id desc
 limit %(most)s;

-- name: load_review
select :select_of_review
  from review r
 where r.org_id = :org and r.plan_id = %(plan_id)s
 order by r.requested_at desc, r.id desc
 limit 1;

-- name: brief
-- Return the fields of a plan that never change, and its skill execution.
select b.research_question as question, b.formatting_notes, b.created_at, b.created_by,
       e.output_media_type, e.formatting_instructions, e.skill,
       case when e.status = 'started' then e.id::text end as skill_execution_id
  from plan_brief b
  left join skill_execution e on e.org_id = :org and e.id = b.skill_execution_id
 where b.org_id = :org and b.plan_id = %(plan_id)s;

-- name: results_within
-- Return the results of a plan's completed and skipped steps, with their sizes. The results are
-- null if their total size is too large. PostgreSQL knows a size without reading the value.
select found.id::text as step_id,
       case when sum(found.octets) over () <= %(most)s then found.result_summary end as result,
       found.confidence,
       found.octets
  from (select s.id, s.step_order, r.result_summary, r.confidence,
               coalesce(octet_length(r.result_summary::text), 4) as octets
          from plan_step s
          join step_result r on r.org_id = :org and r.step_id = s.id
         where s.org_id = :org
           and s.plan_id = %(plan_id)s
           and s.status in ('completed', 'skipped')) found
 order by found.step_order;

-- name: results_of
-- Return the results of these steps, with their sizes; results that are too large are null.
select found.step_id::text,
       case when found.octets <= %(most)s then found.result_summary end as result,
       found.confidence,
       found.octets
  from (select r.step_id, r.result_summary, r.confidence,
               octet_length(r.result_summary::text) as octets
          from step_result r
         where r.org_id = :org
           and r.step_id = any (%(ids)s)
           and r.result_summary is not null) found;

-- name: results_cut
-- Return the beginnings, as JSON text, of the results of a plan's completed and skipped steps. Only
-- the beginning of each value is read.
select s.id::text as step_id, left(r.result_summary::text, %(most)s) as beginning
  from plan_step s
  join step_result r on r.org_id = :org and r.step_id = s.id
 where s.org_id = :org
   and s.plan_id = %(plan_id)s
   and s.status in ('completed', 'skipped')
 order by s.step_order;

-- name: formatting_notes
select s.id::text as step_id, r.formatting_notes as notes
  from plan_step s
  join step_result r on r.org_id = :org and r.step_id = s.id
 where s.org_id = :org
   and s.plan_id = %(plan_id)s
   and r.formatting_notes <> ''
 order by s.step_order;

-- name: touch_step
-- Record a heartbeat of a step, without a lock and without an audit entry.
update plan_step
   set last_seen_at = app_statement_time()
 where org_id = :org and id = %(step_id)s and status = 'in_progress'
returning plan_id::text;

-- name: count_stalls
-- Count the plans that are recorded as stalled, up to a limit, and their steps that have been
-- inactive for too long.
select count(*) as plans,
       coalesce(sum((select count(*)
                       from plan_step s
                      where s.org_id = :org
                        and s.plan_id = p.id
                        and s.status = 'in_progress'
                        and greatest(s.in_progress_since, s.last_seen_at)
                            < (select app_now()) - make_interval(secs =>
                                coalesce(s.stall_seconds, p.stall_seconds, %(patience)s)))), 0)
         ::bigint as steps
  from (select p.id, p.stall_seconds
          from plan p
         where p.org_id = :org and p.status = 'stalled'
         order by p.id desc
         limit %(most)s) p;

-- name: stored_rows
-- Return all rows that the plan's audit covers, for a comparison with the rows rebuilt from the
-- audit.
select 'plan' as entity, p.id::text as id,
       json_build_object(:audit_of_plan, :audit_of_plan_brief) as values
  from plan p
  join plan_brief b on b.org_id = :org and b.plan_id = p.id
 where p.org_id = :org and p.id = %(plan_id)s
 union all
select 'step', s.id::text, json_build_object(
         :audit_of_plan_step, :audit_of_step_brief, :audit_of_step_result)
  from plan_step s
  join step_brief b on b.org_id = :org and b.step_id = s.id
  left join step_result r on r.org_id = :org and r.step_id = s.id
 where s.org_id = :org and s.plan_id = %(plan_id)s
 union all
select 'condition', c.id::text, json_build_object(:audit_of_branching_condition)
  from branching_condition c
 where c.org_id = :org and c.plan_id = %(plan_id)s
 union all
select 'review', r.id::text, json_build_object(:audit_of_review)
  from review r
 where r.org_id = :org and r.plan_id = %(plan_id)s
 union all
select 'session', k.session, json_build_object(:audit_of_plan_session)
  from plan_session k
 where k.org_id = :org and k.plan_id = %(plan_id)s
 union all
select 'artifact', a.id::text, json_build_object(
         'step_id', a.step_id, 'kind', a.kind, 'title', a.title,
         'content', case when a.media_type is null then a.content end,
         'content_hash', case when a.media_type is null then a.content_hash
                              else encode(sha256(convert_to(a.content #>> '{}', 'UTF8')), 'hex') end,
         'media_type', a.media_type, 'version', a.version, 'superseded', a.superseded,
         'tags', nullif(a.tags::text, '[]')::json, 'metadata', a.metadata,
         'created_at', a.created_at, 'created_by', a.created_by)
  from artifact a
 where a.org_id = :org and a.plan_id = %(plan_id)s
 union all
select 'source', s.id::text, json_build_object(:audit_of_source)
  from source s
 where s.org_id = :org and s.id in (select l.source_id
                  from artifact a
                  join artifact_source l on l.org_id = :org and l.artifact_id = a.id
                 where a.org_id = :org and a.plan_id = %(plan_id)s)
 union all
select 'artifact_source', l.artifact_id || '/' || l.position, json_build_object(
         :audit_of_artifact_source)
  from artifact a
  join artifact_source l on l.org_id = :org and l.artifact_id = a.id
 where a.org_id = :org and a.plan_id = %(plan_id)s
 union all
select 'usage', u.id::text, json_build_object(:audit_of_usage)
  from usage u
 where u.org_id = :org and u.plan_id = %(plan_id)s
 union all
select 'comment', m.id::text, json_build_object(:audit_of_comment)
  from comment m
 where m.org_id = :org and m.plan_id = %(plan_id)s;
