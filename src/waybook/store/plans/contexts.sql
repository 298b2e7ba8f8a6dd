-- name: about_step
-- Return the beginnings of the research question and of the step's instructions, and whether the
-- plan may have passages to search: its own, or those of its original.
select s.plan_id::text,
       left(p.research_question, 500) || chr(10) || left(b.instructions, 500) as question,
       exists (select from passage f where f.org_id = :org
                                       and f.plan_id = s.plan_id)
       or p.copied_from is not null as has_research
  from plan_step s
  join step_brief b on b.org_id = :org and b.step_id = s.id
  join plan_brief p on p.org_id = :org and p.plan_id = s.plan_id
 where s.org_id = :org and s.id = %(step_id)s;

-- name: result_prefixes
select s.id::text as step_id, r.confidence, json_typeof(r.result_summary) as kind,
       length(r.result_summary #>> '{}') as length, left(r.result_summary #>> '{}', %(most)s) as text
  from plan_step s
  join step_result r on r.org_id = :org and r.step_id = s.id
 where s.org_id = :org and s.plan_id = %(plan_id)s
 order by s.step_order;

-- name: instruction_prefixes
select s.id::text as step_id, length(b.instructions) as length,
       left(b.instructions, %(most)s) as text
  from plan_step s
  join step_brief b on b.org_id = :org and b.step_id = s.id
 where s.org_id = :org and s.plan_id = %(plan_id)s
 order by s.step_order;

-- name: feedback
select r.id::text, r.decision, r.decided_by, r.decided_at, length(r.feedback) as length,
       left(r.feedback, %(most)s) as feedback, count(*) over () as total
  from review r
 where r.org_id = :org
   and r.plan_id = %(plan_id)s and r.step_id = %(step_id)s and r.decision is not null
 order by r.decided_at desc, r.id desc
offset %(offset)s limit 40;

-- name: comments
-- Return the open comments on a step and on its plan as a whole, newest first.
select :row_of_comment, app_now() as now, count(*) over () as total
  from comment m
 where m.org_id = :org and m.plan_id = %(plan_id)s
   and (m.step_id is null or m.step_id = %(step_id)s::text)
   and m.resolved_at is null and m.body <> ''
 order by m.id desc
offset %(offset)s limit 40;

-- name: failures
select e.seq, e.at, e.actor, length(e.details ->> 'reason') as length,
       left(e.details ->> 'reason', %(most)s) as reason, count(*) over () as total
  from audit_entry e
 where e.org_id = :org
   and e.subject_id = %(plan_id)s and e.event = 'step_failed'
   and e.details ->> 'stepId' = %(step_id)s::text
 order by e.seq desc
offset %(offset)s limit 40;

-- name: newest_artifacts
-- Return the newest artifacts of a plan and its originals, or of one of its steps and that step's
-- originals, with the beginning of each content.
select a.id::text, a.step_id::text, a.kind, a.title, a.superseded, a.created_at, a.created_by,
       json_typeof(a.content) as content_type, length(a.content #>> '{}') as length,
       left(a.content #>> '{}', %(most)s) as text,
       null::text as passage, n.total
  from (select m.id, count(*) over () as total
          from :plan_and_originals w
         cross join lateral (select m.id, m.step_id, m.created_at
                               from artifact m
                              where m.org_id = :org and m.plan_id = w.plan_id
                             offset 0) m
         where %(step_id)s::text is null
            or m.step_id in (select o.step_id
                               from plan_step s
                              cross join lateral :step_and_originals o
                              where s.org_id = :org and s.id = %(step_id)s::text)
         order by m.created_at desc, m.id desc
        offset %(offset)s limit 40) n
  cross join lateral (select x.* from artifact x where x.org_id = :org and x.id = n.id offset 0) a
 order by a.created_at desc, a.id desc;

-- name: artifacts_by_id
-- Return these artifacts of a plan or of its originals, each with the passage that a search found in it.
select a.id::text, a.step_id::text, a.kind, a.title, a.superseded, a.created_at, a.created_by,
       json_typeof(a.content) as content_type, length(a.content #>> '{}') as length,
       left(a.content #>> '{}', %(most)s) as text,
       (select p.body
          from passage p
         where p.org_id = :org
           and p.subject_id = a.id and p.part = (%(parts)s::json ->> a.id::text)::integer
           and p.part > 1) as passage, 0 as total
  from artifact a
 where a.org_id = :org
   and a.id = any (%(ids)s)
   and a.plan_id in (select w.plan_id from :plan_and_originals w);

-- name: plan_text_slice
-- Return a part of one text of a plan, and the full length of the text.
select length(t.whole) as length,
       substr(t.whole, %(offset)s::integer + 1, %(most)s::integer) as text
  from (select case %(kind)s::text
          when 'name' then
            (select p.name from plan p where p.org_id = :org and p.id = %(plan_id)s)
          when 'reason' then
            (select p.fail_reason from plan p where p.org_id = :org and p.id = %(plan_id)s)
          when 'researchQuestion' then
            (select b.research_question from plan_brief b where b.org_id = :org
                                                            and b.plan_id = %(plan_id)s)
          when 'planFormattingNotes' then
            (select b.formatting_notes from plan_brief b where b.org_id = :org
                                                           and b.plan_id = %(plan_id)s)
          when 'outputFormattingInstructions' then
            (select e.formatting_instructions
               from plan_brief b
               join skill_execution e on e.org_id = :org and e.id = b.skill_execution_id
              where b.org_id = :org and b.plan_id = %(plan_id)s)
          when 'artifact' then
            (select a.content #>> '{}'
               from artifact a
              where a.org_id = :org
                and a.id::text = %(id)s::text
                and a.plan_id in (select w.plan_id from :plan_and_originals w))
          when 'summary' then
            (select r.summary
               from review r where r.org_id = :org
                               and r.plan_id = %(plan_id)s and r.id = %(id)s::text)
          when 'questions' then
            (select r.questions #>> '{}'
               from review r where r.org_id = :org
                               and r.plan_id = %(plan_id)s and r.id = %(id)s::text)
          when 'feedback' then
            (select r.feedback
               from review r where r.org_id = :org
                               and r.plan_id = %(plan_id)s and r.id = %(id)s::text)
          when 'comment' then
            (select m.body
               from comment m where m.org_id = :org
                                and m.plan_id = %(plan_id)s and m.id = %(id)s::text)
          when 'failure' then
            (select e.details ->> 'reason'
               from audit_entry e
              where e.org_id = :org and e.subject_id = %(plan_id)s and e.seq = %(seq)s::integer)
        end as whole) t;

-- name: step_text_slice
-- Return a part of one text of a step, and the full length of the text.
select length(t.whole) as length,
       substr(t.whole, %(offset)s::integer + 1, %(most)s::integer) as text
  from plan_step s
 cross join lateral (select case %(kind)s::text
          when 'title' then s.title
          when 'failReason' then s.fail_reason
          when 'dependsOn' then to_json(s.depends_on)::text
          when 'instructions' then
            (select b.instructions from step_brief b where b.org_id = :org and b.step_id = s.id)
          when 'resultSchema' then
            (select b.result_schema #>> '{}' from step_brief b where b.org_id = :org
                                                                 and b.step_id = s.id)
          when 'result' then
            (select r.result_summary #>> '{}' from step_result r where r.org_id = :org
                                                                   and r.step_id = s.id)
        end as whole) t
 where s.org_id = :org and s.plan_id = %(plan_id)s and s.id = %(id)s;
