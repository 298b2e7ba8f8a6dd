-- name: names
-- Return the beginnings of these steps' instructions, which are shown as their names.
select b.step_id::text, left(b.instructions, coalesce(%(most)s, length(b.instructions))) as beginning
  from step_brief b
 where b.org_id = :org and b.step_id = any (%(ids)s);

-- name: step_status_changes
-- Return the status changes of these steps, or of all steps, oldest first. Only the latest entries
-- of a long history are read.
select e.at, e.actor, e.session, m.moves
  from (select a.seq, a.at, a.actor, a.session, coalesce(a.brief, a.details) as details
          from audit_entry a
         where a.org_id = :org and a.subject_id = %(plan_id)s and a.seq > %(since)s
         order by a.seq desc
         limit %(most)s) e
 cross join lateral (
         select json_agg(json_build_array(c.id, c.status)) as moves
           from (select c.value ->> 1 as id, c.value -> 2 -> 'status' ->> -1 as status
                   from json_array_elements(e.details -> 'changes') c
                  where c.value ->> 0 = 'step' and c.value -> 2 -> 'status' is not null) c
          where %(ids)s::text[] is null or c.id = any (%(ids)s::text[])) m
 where m.moves is not null
 order by e.seq;

-- name: added
-- Return the number of steps added to a plan after work on the plan had begun. Only the latest
-- entries of a long history are read.
select coalesce(sum((select count(*)
                       from json_array_elements(e.details -> 'changes') c
                      where c.value ->> 0 = 'step' and c.value -> 2 -> '*' -> 0 is not null
                            and c.value -> 2 -> '*' -> 1 is null)), 0)::integer
  from (select a.seq, coalesce(a.brief, a.details) as details
          from audit_entry a
         where a.org_id = :org and a.subject_id = %(plan_id)s
         order by a.seq desc
         limit %(most)s) e
 where (strpos(e.details::text, 'add_steps') > 0 or strpos(e.details::text, 'addedStepIds') > 0)
   and exists (select
                 from audit_entry b
                where b.org_id = :org
                  and b.subject_id = %(plan_id)s and b.seq <= e.seq
                  and b.event in ('step_started', 'step_completed', 'step_failed'));

-- name: history
-- Return the audit history of a plan or one of its steps, newest first, with shortened comments.
select e.seq, e.at, e.event, e.actor, e.channel, e.session, d.action, d."stepOrder" as step_order,
       d.decision,
       left(coalesce(d.reason, d.rationale, d.feedback, d.title, d.skill,
                     'from ' || d."reclaimedFrom"), %(words)s) as comment,
       case when %(step_id)s::text is not null then e.details -> 'branches' end as branches
  from audit_entry e
 cross join lateral json_to_record(coalesce(e.brief, e.details)) as d (
         action text, "stepOrder" integer, decision text, reason text, rationale text,
         feedback text, title text, skill text, "reclaimedFrom" text)
 where e.org_id = :org
   and e.subject_id = %(plan_id)s
   and (%(step_id)s::text is null
        or strpos(coalesce(e.brief, e.details)::text, %(step_id)s::text) > 0)
 order by e.seq desc
 limit %(most)s;

-- name: research
-- Return the artifacts of a plan except outputs, newest first, without their contents.
select a.id::text, a.step_id::text, a.kind, a.title, a.version, a.superseded, a.created_at,
       a.created_by, (select count(*) from artifact_source l where l.org_id = :org
                                                               and l.artifact_id = a.id) as sources,
       count(*) over () as total
  from artifact a
 where a.org_id = :org and a.plan_id = %(plan_id)s and a.kind <> 'output'
 order by a.created_at desc, a.id desc
 limit %(most)s;

-- name: result
select r.result_summary as summary, r.confidence, r.report, r.formatting_notes
  from step_result r
 where r.org_id = :org and r.step_id = %(step_id)s;

-- name: conditions_about
-- Return the conditions of a step, and the conditions that may skip to this step.
select :select_of_branching_condition
  from branching_condition c
 where c.org_id = :org
   and c.plan_id = %(plan_id)s
   and (c.step_id = %(step_id)s or c.target_step_id = %(step_id)s)
 order by c.position;

-- name: reviews_of
select :select_of_review
  from review r
 where r.org_id = :org and r.plan_id = %(plan_id)s and r.step_id = %(step_id)s
 order by r.requested_at desc, r.id desc
 limit %(most)s;

-- name: sources_of
select l.artifact_id::text, s.title, s.url, left(s.quote, %(words)s) as quote
  from artifact a
  join artifact_source l on l.org_id = :org and l.artifact_id = a.id
  join source s on s.org_id = :org and s.id = l.source_id
 where a.org_id = :org and a.plan_id = %(plan_id)s and a.step_id = %(step_id)s
 order by a.created_at desc, a.id desc, l.position
 limit %(most)s;

-- name: output_texts
select a.id::text, a.content #>> '{}' as content
  from artifact a
 where a.org_id = :org and a.plan_id = %(plan_id)s and a.kind = 'output'
 order by a.created_at, a.id;

-- name: outputs
select :row_of_output
  from artifact a
 where a.org_id = :org and plan_id = %(plan_id)s and kind = 'output'
 order by created_at desc, id desc
 limit %(most)s;

-- name: output
select :row_of_output, a.plan_id::text, a.content #>> '{}' as content
  from artifact a
 where a.org_id = :org and id = %(id)s and kind = 'output';

-- name: latest_outputs
-- Return a page with the latest version of each output of all plans, newest first.
select :row_of_output, a.plan_id::text, p.name as plan_name
  from artifact a
  join plan p on p.org_id = :org and p.id = a.plan_id
 where a.org_id = :org
   and a.kind = 'output'
   and (a.created_at, a.id) < (%(at)s::timestamptz, %(id)s::uuid)
   and not exists (select from artifact n
                    where n.org_id = :org
                      and n.plan_id = a.plan_id and n.kind = a.kind and n.title = a.title
                      and n.version > a.version)
 order by a.created_at desc, a.id desc
 limit %(most)s;

-- name: finished_plans
-- Return the number, time and cost of the completed steps of a plan, and of the newest completed
-- plans. Simulated plans are left out. So are reviewed steps, because their time includes waiting
-- for a person, and steps carried over into a copy: they were never in progress there.
with chosen as (
  (select p.id, true as is_own
     from plan p
    where p.org_id = :org and p.id = %(plan_id)s)
   union all
  (select n.id, false
     from (select p.id
             from plan p
            where p.org_id = :org
              and p.status = 'completed'
              and p.id <> %(plan_id)s
            order by p.id desc
            limit 200) n
     join plan_brief b on b.org_id = :org and b.plan_id = n.id
    where b.simulated is null
    order by n.id desc
    limit 20)),
used as (
  select u.step_id, sum(u.cost_micros)::bigint as cost_micros
    from chosen c
    join usage u on u.org_id = :org and u.plan_id = c.id
   group by u.step_id),
titled as (
  select array_agg(distinct o.title) as titles
    from plan_step o
   where o.org_id = :org and o.plan_id = %(plan_id)s)
select sum(extract(epoch from s.completed_at - s.in_progress_since))::float8 as seconds,
       sum(used.cost_micros)::bigint as cost_micros, count(*) as steps, c.is_own,
       coalesce(2 * count(distinct s.title) filter (where s.title = any (t.titles))
                > cardinality(t.titles), false) as is_same
  from chosen c
 cross join titled t
 cross join lateral (select s.* from plan_step s where s.org_id = :org
                                                   and s.plan_id = c.id offset 0) s
  left join used on used.step_id = s.id
 where s.status = 'completed'
   and s.in_progress_since is not null
   and not exists (select
                     from review v
                    where v.org_id = :org
                      and v.plan_id = s.plan_id
                      and v.step_id = s.id)
 group by c.id, c.is_own, t.titles
 order by c.id desc;

-- name: previous_reviews
-- For each of these reviews, return the last review of the same step that was decided before it. If
-- a result is too long to compare, only its length is returned.
select distinct on (r.id)
       r.id::text as review_id, e.feedback, e.decision, e.decided_by, e.decided_at,
       case when length(e.result_summary::text) <= %(longest)s then e.result_summary end
         as result_summary,
       coalesce(length(e.result_summary::text), 0) as result_length
  from review r
  join review e on e.org_id = :org and e.plan_id = r.plan_id and e.step_id = r.step_id
 where r.org_id = :org
   and r.id = any (%(ids)s)
   and e.id <> r.id
   and e.decided_at <= r.requested_at
 order by r.id, e.decided_at desc, e.id desc;

-- name: review_artifacts
-- For each of these reviews, return the newest research of its step and the newest outputs of its
-- plan. Only the latest versions are returned.
select r.id::text as review_id, n.id::text, n.kind, n.title, n.total
  from review r
  cross join lateral (
         (select a.id, a.kind, a.title, a.created_at, count(*) over () as total
            from artifact a
           where a.org_id = :org
             and a.step_id = r.step_id and a.kind <> 'output' and not a.superseded
           order by a.created_at desc, a.id desc
           limit %(most)s)
          union all
         (select a.id, a.kind, a.title, a.created_at, count(*) over () as total
            from artifact a
           where a.org_id = :org
             and a.plan_id = r.plan_id
             and a.kind = 'output'
             and not exists (select from artifact v
                              where v.org_id = :org
                                and v.plan_id = a.plan_id and v.kind = a.kind and v.title = a.title
                                and v.version > a.version)
           order by a.created_at desc, a.id desc
           limit %(most)s)) n
 where r.org_id = :org and r.id = any (%(ids)s)
 order by r.id, n.created_at desc, n.id desc;
