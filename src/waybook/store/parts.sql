-- Several queries share these fragments. A query refers to a fragment as `:name`.

-- name: org
-- The org of the transaction. The driver binds it, so that a cluster sends the query to one node.
%(org)s::uuid;

-- name: subject_as_uuid
-- The id of an audited subject as a UUID, so that the primary key serves the lookup. Null for a
-- plan or run, whose ids are not UUIDs.
(case when length(%(subject_id)s::text) = 36 then %(subject_id)s::uuid end);

-- name: row_of_entry
subject_id::text, subject, seq, at, event, actor, channel, session,
details::text, hash;

-- name: entry_is_asked_for
-- A null filter accepts every entry. Only administrators see entries about users and tokens
-- (`members`).
(%(event)s::text is null or event = %(event)s::text)
and (%(actor)s::text is null or actor = %(actor)s::text)
and (%(channel)s::text is null or channel = %(channel)s::text)
and (%(session)s::text is null or :session_of_entry = %(session)s::text)
and (%(members)s::boolean or subject <> 'org');

-- name: next_entries
-- A page of audit entries before a given entry, newest first. Both time bounds are always set, so
-- that an index that ends with the time is used.
at >= %(since)s::timestamptz
and (at, subject_id, seq) < (%(at)s::timestamptz, %(subject_id)s::text, %(seq)s::integer)
order by at desc, subject_id desc, seq desc
limit %(most)s;

-- name: row_of_document
d.id::text, d.stage_slug as stage, d.step_key, d.document_key, d.model, d.lineage, d.reviewer,
length(d.content), (select j.held_by from job j where j.org_id = :org
                                                  and j.id = d.job_id) as by, d.created_at as at;

-- name: row_of_job
j.id, j.stage_slug as stage, j.step_key, j.job_type, j.model, j.rank, j.unit, j.ready_at, j.status,
j.attempt, j.tries, j.held_by, j.held_session, j.started_at, j.completed_at, j.error,
j.continues_id as continues, j.part, j.document_id::text as document, j.counted;

-- name: row_of_input
-- Columns of an input document. The text is included while the total length of all texts is within
-- a limit.
n.id, n.stage, n.step_key, n.document_key, n.model, n.lineage, n.reviewer, n.length, n.by, n.at,
case when sum(n.length) over (order by n.number, n.id) <= %(most)s
     then (select d.content from document d where d.org_id = :org
                                              and d.id = n.document_id) end as content;

-- name: row_of_definition
d.version, d.name, d.body, encode(d.body_hash, 'hex') as body_hash, d.created_at, d.created_by,
d.slug;

-- name: is_held_by_caller
-- Different users may have sessions of the same name, so user and session are compared together.
-- Never true without a session.
held_by = %(holder)s::text and held_session = %(session)s::text;

-- name: job_is_claimable
-- A job is claimable if it is ready and not claimed, or if its holder sent no heartbeat for longer
-- than the lease.
j.completed_at is null
and j.job_type <> 'RENDER'
and (%(job_type)s::text is null or j.job_type = %(job_type)s::text)
and (j.status in ('pending', 'retrying', 'waiting') and j.ready_at <= app_now()
     or j.status = 'processing'
        and greatest(j.seen_at, j.started_at) < app_now() - %(lease)s * interval '1 second')
and :job_is_in_turn;

-- name: job_is_in_turn
-- Documents of a run are regenerated in the order of their steps, because later ones read earlier
-- ones.
(j.document_id is null
 or not exists (select from job e
                 where e.org_id = :org
                   and e.run_id = j.run_id
                   and e.completed_at is null
                   and e.job_type <> 'RENDER'
                   and e.document_id is not null
                   and e.rank < j.rank));

-- name: jobs_to_claim
-- Claimable jobs of a run, in the order in which they are claimed.
job j
 where j.org_id = :org
   and j.run_id = %(run_id)s
   and :job_is_claimable
 order by j.rank, j.id;

-- name: jobs_to_claim_for_model
-- Claimable jobs of a run for one model, in the order in which they are claimed.
job j
 where j.org_id = :org
   and j.run_id = %(run_id)s
   and j.model = %(model)s
   and :job_is_claimable
 order by j.rank, j.id;

-- name: jobs_in_progress
-- Jobs that agents hold, longest running first. They are read from the org's index of jobs in
-- progress, because an index of the run's jobs would read all jobs of the run.
(select j.* from job j where j.org_id = :org and j.status = 'processing' offset 0) j
 where j.run_id = %(run_id)s
   and j.job_type <> 'RENDER'
 order by j.started_at, j.id;

-- name: jobs_go_on
-- True if a step has jobs that are not finished, as `StepRun.is_open`.
s.closed_at is null and s.total > s.done + s.failed;

-- name: stages_of_run
-- Stages of a run in the order of their start, each with its numbers of closed and failed steps, its
-- models, and whether jobs of it are not finished.
(select json_agg(json_build_array(g.stage_slug, g.completed_at is not null,
                                  g.feedback is not null, s.closed, s.failed, g.models, s.goes_on)
                 order by g.started_at, g.stage_slug)
   from stage_run g
  cross join lateral (select count(*) filter (where s.closed_at is not null) as closed,
                             count(*) filter (where s.failed > 0 and s.closed_at is null) as failed,
                             coalesce(bool_or(:jobs_go_on), false) as goes_on
                        from stage_step s
                       where s.org_id = :org
                         and s.run_id = g.run_id and s.stage_slug = g.stage_slug) s
  where g.org_id = :org and g.run_id = r.id);

-- name: row_of_run
r.id::text, r.name, r.dag_slug, r.dag_version, b.created_at, b.created_by, r.updated_at,
r.completed_at, r.canceled_at, app_now() as now, r.lists, :stages_of_run as stages,
(r.usage ->> 'cost_micros')::bigint as cost_micros;

-- name: limit_of_all_runs
-- Number of runs to read. Null, which means all, if a filter leaves out runs.
case when coalesce(%(state)s::text, 'open') = 'open' and %(dag)s::text is null
     then %(most)s::bigint end;

-- name: failed_stages
-- Failed stages of open runs. Only the newest failed steps are read, because the failed steps of
-- canceled runs remain in the table.
(select distinct r.id, r.name, s.stage_slug
   from (select s.run_id, s.stage_slug
           from stage_step s
          where s.org_id = :org and s.failed > 0 and s.closed_at is null
          order by s.run_id desc
          limit %(most)s) s
  cross join lateral (select r.id, r.name
                        from run r
                       where r.org_id = :org
                         and r.id = s.run_id
                         and r.completed_at is null
                         and r.canceled_at is null
                      offset 0) r) f;

-- name: runs_asked_for
-- Runs that match the filters of a list, with the state of each run.
run r
:run_is_asked_for;

-- name: state_of_listed_run
-- The state of a run that people see, as `state_of_run`.
(
      select case when r.completed_at is not null then 'completed'
                  when r.canceled_at is not null then 'canceled'
                  when exists (select from stage_step s
                                where s.org_id = :org
                                  and s.run_id = r.id and s.failed > 0 and s.closed_at is null)
                   and not exists (select from stage_step s
                                    where s.org_id = :org
                                      and s.run_id = r.id and :jobs_go_on)
                  then 'failed'
                  when exists (select from stage_run g
                                where g.org_id = :org
                                  and g.run_id = r.id and g.completed_at is null)
                  then 'in_progress'
                  else 'awaiting_input' end as state);

-- name: run_is_asked_for
-- Join and conditions for the runs that match the filters of a list.
join run_brief b on b.org_id = :org and b.run_id = r.id
cross join lateral :state_of_listed_run w
where r.org_id = :org
  and r.id < %(before)s::text
  and (%(state)s::text is null or (%(state)s::text = 'open' and r.completed_at is null
                                       and r.canceled_at is null)
       or w.state = %(state)s::text)
  and (%(dag)s::text is null or r.dag_slug = %(dag)s::text);

-- name: run_has_text
strpos(lower(r.name), lower(%(text)s::text)) > 0;

-- name: documents_of_listed_run
-- Number of a run's documents that are available to read.
(select count(distinct (d.stage_slug, d.document_key, d.step_key, d.model, d.lineage,
                        coalesce(d.reviewer, '')))
   from rendered_document h
   join document d on d.org_id = :org and d.id = h.document_id
  where h.org_id = :org and h.run_id = r.id);

-- name: words_asked
-- Each word of the searched text, as the range of words that begin with it. Under row-level
-- security, an index serves only conditions with leakproof functions, and `||` is not leakproof.
asked as materialized (
  select w.word as first, w.word || chr(1114111) as last
    from unnest(app_name_parts(%(text)s)) as w (word)
);

-- name: row_of_readable
h.id::text as resource_id, d.stage_slug as stage, d.step_key, d.document_key, d.model, d.lineage,
d.reviewer, d.version, h.created_at, length(h.markdown), d.id::text as document_id, d.job_id::text;

-- name: row_of_loaded_plan
-- Columns of a plan and of its brief (the fields that never change), without the plan's steps.
p.id::text, p.name, p.status, p.revision, p.stall_seconds, p.resumed_at, p.fail_reason,
p.audit_seq, p.audit_hash, app_now() as now, p.usage, p.budget, b.created_by, b.created_at,
p.updated_at, b.copied_from::text, b.copied_seq, b.sequential, p.canceled;

-- name: is_known_session
-- True if an earlier call on the plan had the caller's session.
exists (select from plan_session k where k.org_id = :org
                                     and k.plan_id = %(plan_id)s and k.session = %(session)s);

-- name: conditions_of_plan
-- Evaluated conditions are included, because they are copied together with their steps.
(select json_agg(json_build_array(:list_of_branching_condition) order by c.position)
   from branching_condition c
  where c.org_id = :org and c.plan_id = %(plan_id)s);

-- name: step_list_of_plan
-- Steps of a plan in any order, each as a list of columns. One row with a list is converted and
-- sorted faster than many rows.
(select json_agg(json_build_array(:list_of_plan_step))
   from plan_step s
  where s.org_id = :org and s.plan_id = %(plan_id)s);

-- name: texts_of_step
json_build_array(t.step_id, t.instructions, t.result_schema, t.required_sources);

-- name: status_counts
json_build_object(
  'pending', count(*) filter (where s.status = 'pending'),
  'in_progress', count(*) filter (where s.status = 'in_progress'),
  'awaiting_input', count(*) filter (where s.status = 'awaiting_input'),
  'completed', count(*) filter (where s.status = 'completed'),
  'skipped', count(*) filter (where s.status = 'skipped'),
  'failed', count(*) filter (where s.status = 'failed'));

-- name: status_initials
-- One letter per step: no two statuses share a first letter, and this is cheaper than counting.
string_agg(left(s.status, 1), '');

-- name: steps_of_plan
-- One read of the steps returns the number of steps in each status, the current step, and since
-- when its steps in progress have been inactive.
(select :status_counts as counts,
        coalesce(min(s.step_order) filter (where s.status = 'awaiting_input'),
                 min(s.step_order) filter (where s.status = 'in_progress')) as current_order,
        min(greatest(s.in_progress_since, s.last_seen_at))
          filter (where s.status = 'in_progress') as inactive_since,
        count(*) filter (where s.status = 'in_progress' and s.held_by is not null) as held
   from plan_step s
  where s.org_id = :org and s.plan_id = p.id);

-- name: details_of_plan
-- Joins for the columns of `row_of_plan`.
join plan_brief b on b.org_id = :org and b.plan_id = p.id
cross join lateral :steps_of_plan c;

-- name: row_of_plan
-- Columns of a plan in a list. A stalled plan also has the time since which it has been inactive.
p.id::text as id, p.name, :state_of_plan as state, p.revision,
left(b.research_question, %(wide)s) as question,
b.created_at, b.created_by, p.updated_at, app_now() as now, c.counts,
case when c.current_order is not null
     then (select json_build_array(s.step_order, :title_of_step)
             from plan_step s
            where s.org_id = :org and s.plan_id = p.id and s.step_order = c.current_order)
end as current_step,
case when p.status = 'stalled' then c.inactive_since end as inactive_since, c.held,
(p.usage ->> 'cost_micros')::bigint as cost_micros;

-- name: row_of_output
a.id::text, a.title, a.media_type, a.version, a.content_hash, a.created_at, a.created_by;

-- name: last_look
-- Time since which the overview lists finished work. `looked_at` is the reader's last request, and
-- `since` was the start of the list then. After a pause, a new list begins at the last request. A
-- new reader sees one day, and no reader sees more than two weeks. Queries select it in a subquery,
-- so that it is computed once and an index can serve conditions on it.
greatest(app_now() - interval '14 days',
         coalesce(case when %(looked_at)s::timestamptz < app_now() - interval '30 minutes'
                       then %(looked_at)s::timestamptz
                       else %(since)s::timestamptz end,
                  app_now() - interval '1 day'));

-- name: title_of_step
-- A step without a title gets the beginning of its instructions.
coalesce(s.title, (select left(i.instructions, %(wide)s)
                     from step_brief i
                    where i.org_id = :org and i.step_id = s.id));

-- name: state_of_plan
-- The status that pages and lists show, as `plan_state` in `states.py`.
case when p.canceled then 'canceled' else p.status end;

-- name: status_of_asked_state
-- The stored status of plans in the requested state. Canceled plans are stored as failed. Plans to
-- do have several statuses.
case %(state)s::text when 'canceled' then 'failed'
                     when 'awaiting_input' then 'awaiting_review'
                     when 'in_progress' then 'executing'
                     else %(state)s::text end;

-- name: plan_is_held
-- True if an agent holds a step of the plan.
exists (select
          from plan_step s
         where s.org_id = :org
           and s.plan_id = p.id
           and s.status = 'in_progress'
           and s.held_by is not null);

-- name: last_change_of_plan
-- Actor of the latest audit entry that may have ended the plan.
(select e.actor
   from audit_entry e
  where e.org_id = :org
    and e.subject_id = p.id
    and e.event in ('step_completed', 'step_failed', 'plan_modified', 'user_reviewed')
  order by e.seq desc
  limit 1);

-- name: update_of_plan
-- If the plan's audit number or status has changed since it was loaded, the number becomes null and
-- the NOT NULL constraint rejects the update. The time of the next stall check changes only if the
-- plan begins or stops executing or gets new steps, because changing an indexed column prevents an
-- update in place.
update plan
   set status = %(status)s,
       revision = %(revision)s,
       resumed_at = %(resumed_at)s,
       completed_at = coalesce(completed_at, %(completed_at)s),
       fail_reason = %(fail_reason)s,
       canceled = %(canceled)s,
       usage = coalesce(%(usage)s, usage),
       audit_seq = case when audit_seq = %(old_seq)s and status = %(old_status)s
                        then %(audit_seq)s::integer end,
       audit_hash = %(audit_hash)s,
       stall_check_at = case when %(status)s <> 'executing' then null
                             when status <> 'executing' or %(has_new_steps)s then %(now)s
                             else coalesce(stall_check_at, %(now)s) end,
       updated_at = %(now)s
 where org_id = :org and id = %(id)s;

-- name: time_is_expected
-- True if the database clock is close to the time that a call on a cached copy has used.
app_statement_time() >= %(now)s::timestamptz - interval '5 ms'
and app_statement_time() <= %(now)s::timestamptz + interval '1 s';

-- name: one_row_or_stale
-- Fail with the exception `StaleCache` unless the statement found exactly one row.
app_refuse_unless(count(*) = 1, 'WB001')

-- name: plan_is_less_active
-- True if the plan comes after the last plan of the previous page, by last activity.
(p.updated_at, p.id) < (coalesce(%(before_at)s::timestamptz, 'infinity'), %(before)s::text)
and p.active_minute <= coalesce(%(before_at)s::timestamptz at time zone 'UTC', 'infinity');

-- name: limit_of_all_plans
-- Number of plans to read. Null, which means all, if a filter leaves out plans.
case when %(state)s::text is null and %(creator)s::text is null then %(most)s::bigint end;

-- name: plan_is_asked_for
-- PostgreSQL can estimate how many plans fulfill these conditions. It could not estimate this for a
-- condition on `state_of_plan`.
(%(state)s::text is null
 or p.status = :status_of_asked_state
 and (p.canceled is null) <> (%(state)s::text = 'canceled')
 and (%(state)s::text not in ('in_progress', 'stalled') or :plan_is_held)
 or %(state)s::text = 'pending'
 and p.status in ('planning', 'executing', 'stalled')
 and not :plan_is_held)
and (%(creator)s::text is null
     or %(creator)s::text = (select b.created_by
                               from plan_brief b
                              where b.org_id = :org and b.plan_id = p.id));

-- name: plan_has_text
strpos(lower(p.name), lower(%(text)s::text)) > 0;

-- name: row_of_review
r.id::text, p.id::text as plan_id, p.name as plan_name, s.id::text as step_id, s.step_order,
s.title, s.attempt, b.instructions, r.summary, r.questions, r.result_summary, r.requested_at,
r.requested_by, app_now() as now, r.decision, r.feedback, r.decided_by, r.decided_at,
:state_of_plan as plan_state, :plan_is_held as plan_is_held, :assignee_of_step as assignee;

-- name: review_with_its_step
review r
join plan p on p.org_id = :org and r.org_id = :org and p.id = r.plan_id
join plan_step s on s.org_id = :org and s.id = r.step_id
join step_brief b on b.org_id = :org and b.step_id = s.id;

-- name: comment_is_in_thread
-- True if the comment is about exactly this plan, step, run or job.
m.org_id = :org
and (m.plan_id = %(plan_id)s::text and m.step_id is not distinct from %(step_id)s::text
     or m.run_id = %(run_id)s::text and m.job_id is not distinct from %(job_id)s::text);

-- name: row_of_comment
m.id::text, m.plan_id::text, m.step_id::text, m.run_id::text, m.job_id::text, m.body, m.assignee,
m.created_at, m.created_by, m.session, m.channel, m.resolved_at, m.resolved_by;

-- name: assignee_of_step
-- Assignee of the step `s`: that of the newest open comment of the step that has one.
(select m.assignee
   from comment m
  where m.org_id = :org and m.plan_id = s.plan_id and m.step_id = s.id
    and m.assignee is not null and m.resolved_at is null
  order by m.id desc
  limit 1);

-- name: passage_fits
(%(kinds)s::text is null or p.kind = any (string_to_array(%(kinds)s, chr(31))))
and (%(since)s::timestamptz is null or p.created_at >= %(since)s)
and (%(tags)s::text is null
     or string_to_array(p.tags, chr(31)) @> string_to_array(%(tags)s, chr(31)));

-- name: deletion_is_recorded
-- True if the deletion of `p` is recorded for the processes that have the passage in memory.
exists (select from passage_deletion g
         where g.org_id = :org and g.subject_id = p.subject_id and g.part = p.part);

-- name: plan_and_originals
-- A plan, the plan it was copied from, and so on. A copy reads the research of its originals.
(with recursive line as (
   select %(plan_id)s::text collate "C" as plan_id, 1 as number
    union all
   select (select b.copied_from from plan_brief b where b.org_id = :org and b.plan_id = n.plan_id),
          n.number + 1
     from line n
    where n.plan_id is not null and n.number < 20)
 select n.plan_id from line n where n.plan_id is not null);

-- name: step_and_originals
-- The step `s`, the step it was copied from, and so on.
(with recursive line as (
   select s.id as step_id, s.copied_from, 1 as number
    union all
   select n.copied_from,
          (select o.copied_from from plan_step o where o.org_id = :org and o.id = n.copied_from),
          n.number + 1
     from line n
    where n.copied_from is not null and n.number < 20)
 select n.step_id from line n);

-- name: sources_of_plan
-- Ids of the sources that the artifacts of a plan and of its originals cite.
(select distinct l.source_id
   from :plan_and_originals w
  cross join lateral (select a.id from artifact a where a.org_id = :org
                                                    and a.plan_id = w.plan_id offset 0) a
   join artifact_source l on l.org_id = :org and l.artifact_id = a.id);

-- name: passages_of_plan
-- Passages of a plan and of its originals that match the filters of a search, a limited number of
-- the newest of each.
(select p.subject_id, p.part
   from :plan_and_originals w
  cross join lateral (select p.subject_id, p.part
                        from passage p
                       where p.org_id = :org and p.plan_id = w.plan_id and :passage_fits
                       order by p.created_at desc
                       limit %(newest)s) p);

-- name: passages_of_cited_sources
-- Passages of the sources that a plan's artifacts cite, up to a limit.
(select p.subject_id, p.part
   from :sources_of_plan l
   join passage p on p.org_id = :org and p.subject_id = l.source_id
  where :passage_fits
  limit %(newest)s);

-- name: has_every_term
-- True if a passage `p` matches a search as it is written. False for a search without words.
coalesce(p.words @@ case when numnode(websearch_to_tsquery('english', %(every)s)) > 0
                         then websearch_to_tsquery('english', %(every)s) end, false);

-- name: best_candidates
-- Candidates, best first, ranked by BM25 with k1 = 1.5 and b = 0.3. Inverse document frequencies
-- are counted among the candidates. `measure` is about the weighted share of the query's terms that
-- a passage contains. A passage that matches the query as written, with its quotes and minus signs,
-- gets a bonus. `ts_rank` of a word that occurs n times is about n / (n + 0.645), and
-- 2.33 = 1.5 / 0.645.
asked as materialized (
  select q.query, max(t.spellings) as spellings
    from json_to_recordset(%(terms)s::json) as t (query text, spellings integer)
   cross join lateral (select websearch_to_tsquery('english', t.query) as query) q
   where numnode(q.query) > 0
   group by q.query
), matched as materialized (
  select c.subject_id, c.part, c.created_at, c.has_every, length(c.words) as length, a.query,
         least(ts_rank('{1, 1, 1, 1}', c.words, a.query) * a.spellings, 0.95) as rank
    from candidate c
    join asked a on c.words @@ a.query
), size as materialized (
  select count(*) as passages, avg(length) as length
    from (select distinct subject_id, part, length from matched) m
), weighted as materialized (
  select a.query, ln(1 + s.passages / greatest(count(m.query), 0.5)) as weight
    from asked a
   cross join size s
    left join matched m on m.query = a.query
   group by a.query, s.passages
)
select m.subject_id::text, m.part,
       (sum(w.weight * 2.5 * m.rank
            / (m.rank + 2.33 * (1 - m.rank) * (0.7 + 0.3 * m.length / s.length)))
        / (select sum(weight) from weighted)
        + case when m.has_every then 0.25 else 0 end)::float8 as measure
  from matched m
  join weighted w on w.query = m.query
 cross join size s
 group by m.subject_id, m.part, m.created_at, m.has_every
 order by measure desc, m.created_at desc, m.subject_id, m.part
 limit %(most)s;

-- name: idle_session
-- After this idle time, the user of a web session must sign in again.
interval '8 hours';

-- name: usage_sums
coalesce(sum(u.input_tokens), 0)::bigint as input_tokens,
coalesce(sum(u.output_tokens), 0)::bigint as output_tokens,
coalesce(sum(u.cost_micros), 0)::bigint as cost_micros,
count(*) as results;

-- name: embedding_record
-- An embedding as bytes: 16 for the subject id, 4 for the part number, and 2 per dimension.
uuid_send(e.subject_id) || int4send(e.part) || e.embedding;

-- name: erasures_of_org
coalesce((select o.erasures from org o where o.org_id = :org), 0) as erasures;

-- name: passages_to_embed
-- Passages created since a given time. Passages are left out if they were quarantined within the
-- last day, because storing their embeddings broke the database connection.
select p.subject_id::text, p.part, p.title, p.body
  from passage p
 where p.org_id = :org
   and (%(since)s::timestamptz is null or p.created_at >= %(since)s)
   and not exists (select from passage_quarantine q
                    where q.org_id = :org
                      and q.subject_id = p.subject_id and q.part = p.part
                      and q.model = %(model)s and q.backend = %(backend)s
                      and q.quarantined_at > app_now() - interval '1 day');

-- name: session_of_entry
-- The session of an audit entry, or an empty text. PostgreSQL does not regard `coalesce` as
-- leakproof, so under row-level security no index would serve a condition on it.
case when e.session is null then '' else e.session end;

-- name: session_of_usage
-- As `session_of_entry`, for a record of usage.
case when u.session is null then '' else u.session end;

-- name: usage_is_in_period
-- The times may be null: the last 30 days.
u.at >= (select coalesce(%(since)s::timestamptz, app_now() - interval '30 days'))
and u.at < (select coalesce(%(until)s::timestamptz, 'infinity'));

-- name: work_of_agent
-- Completed and failed work of an agent in the last 30 days, among its latest audit entries.
(select count(*) filter (where e.event = 'step_completed') as completed,
        count(*) filter (where e.event = 'step_failed') as failed,
        count(*) as counted
   from (select e.event
           from audit_entry e
          where e.org_id = :org
            and e.actor = a.name
            and :session_of_entry = a.session
            and e.channel = 'mcp'
            and e.at >= (select app_now() - interval '30 days')
          order by e.at desc
          limit %(counted)s) e);

-- name: usage_of_agent
-- Usage that an agent reported in the last 30 days, among its latest reports.
(select :usage_sums
   from (select u.input_tokens, u.output_tokens, u.cost_micros
           from usage u
          where u.org_id = :org
            and u.by = a.name
            and :session_of_usage = a.session
            and u.at >= (select app_now() - interval '30 days')
          order by u.at desc
          limit %(counted)s) u);

-- name: text_asked
-- Text queries of a search. `words` requires every term, and the last may be the beginning of a
-- word. `name` also accepts the beginnings of all words. Both are null without terms, because an
-- empty query would match every row of the org.
asked as materialized (
  select ('''@' || :org || '''')::tsquery && case when numnode(q.words) > 0 then q.words end
           as words,
         ('''@' || :org || '''')::tsquery && case when numnode(q.name) > 0 then q.name end
           as name
    from (select coalesce(w.terms || (websearch_to_tsquery('english', %(before_last)s)
                                      && to_tsquery('english', %(last)s)), w.terms) as words,
                 coalesce(w.terms || to_tsquery('simple', %(beginnings)s), w.terms) as name
            from (select websearch_to_tsquery('english', %(text)s) as terms) w) q
);

-- name: words_of_name
-- The words of a search by name without the full-text index, as in `words_asked`. Quotes and minus
-- signs are left to the search of the newest rows.
name_word as materialized (
  select w.word as first, w.word || chr(1114111) as last
    from unnest(app_name_parts(%(beginnings)s)) as w (word)
   where not %(indexed)s::boolean
);

-- name: matching_texts
-- Rows of `texts` that match a search. Without the full-text index, only the newest rows are read:
-- in order of their ids, because a condition on the id would be checked row by row, see
-- `session_of_entry`.
(select t.*
   from texts t
  where %(indexed)s::boolean and t.words @@ (select words from asked)
  union all
 select t.*
   from (select t.* from texts t where not %(indexed)s::boolean order by t.id desc
          limit %(scanned)s) t
  where t.words @@ (select words from asked));

-- name: best_texts
-- Rows of `matching` with their ranks, best first.
(select m.id, ts_rank(m.words, (select words from asked)) as rank
   from matching m
  order by rank desc, m.id desc
  limit %(most)s);

-- name: best_named_rows
-- Rows with the searched id, or with a match in `named` or `texts`, best first. `by_word` has older
-- rows whose names contain a word of the search, for servers without the full-text index.
(select m.id, max(m.rank) as rank
   from ((select n.id, 1 + ts_rank(n.words, (select name from asked)) as rank
            from (select n.* from named n where %(indexed)s::boolean
                                            and n.words @@ (select name from asked)
                   union all
                  select n.*
                    from (select n.* from named n where not %(indexed)s::boolean
                           order by n.id desc limit %(scanned)s) n
                   union all
                  select n.*
                    from by_word w
                   cross join lateral (select n.* from named n where n.id = w.id offset 0) n) n
           where n.words @@ (select name from asked)
           limit 500)
          union all
         (select t.id, ts_rank(t.words, (select words from asked))
            from :matching_texts t
           limit 500)
          union all
         select %(id)s::text, 10 where %(id)s::text is not null) m
  group by m.id
  order by max(m.rank) desc, m.id desc
  limit %(most)s);

-- name: bearer_of_any_token
-- User and scopes of the valid token whose secret has the hash that is set in this transaction.
select t.org_id, u.name as user, t.id::text as token_id, t.scopes as token_scopes, u.scopes as user_scopes,
       t.last_used_at is null or t.last_used_at < app_now() - interval '1 minute' as record_use,
       app_now() as now,
       case when t.last_used_at > app_now() - interval '1 minute' then t.last_used_at else app_now() end
       + interval '1 minute' as recent_until
  from api_token t
  join org_user u on u.id = t.user_id and u.org_id = t.org_id
 where t.hash = app_secret_hash()
   and t.revoked_at is null
   and (t.expires_at is null or t.expires_at > app_now())
   and u.disabled_at is null;

-- name: person_of_any_session
-- User of the valid web session whose secret has the hash that is set in this transaction.
select s.org_id, s.id::text as session_id, s.token_id::text, u.name, coalesce(o.name, o.slug) as org,
       u.scopes as user_scopes, t.scopes as token_scopes,
       s.last_seen_at < app_now() - interval '1 minute' as record_use
  from web_session s
  join org_user u on u.org_id = s.org_id and u.id = s.user_id
  join org o on o.org_id = s.org_id
  left join api_token t on t.org_id = s.org_id and t.id = s.token_id
 where s.hash = app_secret_hash()
   and s.ended_at is null
   and s.expires_at > app_now()
   and s.last_seen_at > app_now() - :idle_session
   and u.disabled_at is null
   and (s.token_id is null
        or (t.id is not null
            and t.revoked_at is null
            and (t.expires_at is null or t.expires_at > app_now())));

-- name: link_with_hash
-- Link whose secret has the hash that is set in this transaction, and the scopes of its user.
select l.org_id, l.id::text, l.kind, l.plan_id::text, l.review_id::text, l.run_id::text,
       l.stage, l.seq, l.for_user, l.user_id is not null as has_account, u.name as user_name,
       u.scopes as user_scopes, l.created_at, l.expires_at, l.expires_at <= app_now() as is_expired,
       l.revoked_at is not null as is_revoked
  from access_link l
  left join org_user u on u.id = l.user_id and u.org_id = l.org_id and u.disabled_at is null
 where l.hash = app_secret_hash();

-- name: advance_of_run
-- Update the audit number and hash of a run that has not changed since it was cached.
update run
   set audit_seq = %(audit_seq)s,
       audit_hash = %(audit_hash)s,
       updated_at = %(now)s
 where org_id = :org
   and id = %(run_id)s
   and audit_seq = %(old_seq)s
   and audit_hash = %(old_hash)s
   and :time_is_expected
returning 1;

-- name: update_of_job
-- If the job's attempt has changed since it was loaded, the attempt becomes null and the NOT NULL
-- constraint rejects the update.
update job
   set status = %(status)s,
       attempt = case when attempt = %(old_attempt)s then %(attempt)s::integer end,
       tries = %(tries)s,
       ready_at = %(ready_at)s,
       seen_at = coalesce(%(seen_at)s, seen_at),
       held_by = %(held_by)s,
       held_session = %(held_session)s,
       started_at = %(started_at)s,
       completed_at = %(completed_at)s,
       error = %(error)s
 where org_id = :org and id = %(id)s;

-- name: cap_applies
-- Select the caps `c` that limit the work of an agent on a plan or run.
c.org_id = :org
   and (c.scope = 'org'
        or c.scope = 'plan' and c.subject = %(plan_id)s::text
        or c.scope = 'run' and c.subject = %(run_id)s::text
        or c.scope = 'agent' and c.subject = %(agent)s::text)

-- name: caps_with_reservations
select c.id, c.scope, c.subject, c.period, c.unit, c.most, c.asked,
       case when c.period = 'total' or c.day = (app_now() at time zone 'UTC')::date
            then c.used else 0 end as used,
       coalesce(o.reserved, 0) as reserved, coalesce(o.unknown, 0) as unknown,
       c.paused_at, c.ended_at
  from work_cap c
 cross join lateral (
       select sum(a.most) filter (where r.expires_at > app_now())::bigint as reserved,
              sum(a.most) filter (
                where r.expires_at between c.created_at and app_now()
                  and (c.period = 'total'
                       or (r.expires_at at time zone 'UTC')::date
                          = (app_now() at time zone 'UTC')::date))::bigint as unknown
         from work_reservation r
        cross join lateral (
              select case c.unit
                     when 'tokens' then r.tokens
                     when 'costUsd' then r.cost_micros
                     when 'seconds' then r.seconds
                     when 'steps' then 1 end as most) a
        where r.org_id = :org
          and r.settled_at is null
          and r.expires_at > app_now() - interval '7 days'
          and (c.scope = 'org'
               or c.scope = 'plan' and c.subject = r.plan_id
               or c.scope = 'run' and c.subject = r.run_id
               or c.scope = 'agent' and c.subject = r.agent)) o
 where c.org_id = :org

-- name: cap_is_paused
c.paused_at is not null
   and c.ended_at is null
   and (c.period = 'total'
        or (c.paused_at at time zone 'UTC')::date = (app_now() at time zone 'UTC')::date)
   and not exists (select
                     from plan p
                    where p.org_id = :org and p.id = c.subject and c.scope = 'plan'
                      and p.completed_at is not null)
   and not exists (select
                     from run r
                    where r.org_id = :org and r.id = c.subject and c.scope = 'run'
                      and coalesce(r.completed_at, r.canceled_at) is not null);
