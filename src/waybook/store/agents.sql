-- name: record_agents
-- Insert the agents that made calls, or update the time of their last call. `clients` has an
-- agent's last eight clients, latest first. (Citus 13.2 crashes on an array slice in an update.)
insert into agent (name, session, clients)
values %(rows)s
    on conflict (org_id, name, session) do update
   set last_seen_at = excluded.last_seen_at,
       clients = excluded.clients
                 || trim_array(array_remove(agent.clients, excluded.clients[1]),
                               greatest(cardinality(array_remove(agent.clients, excluded.clients[1]))
                                        + cardinality(excluded.clients) - 8, 0))
 where excluded.last_seen_at - agent.last_seen_at > interval '30 seconds'
    or excluded.clients[1] <> coalesce(agent.clients[1], '');

-- name: clients_of_agents
select a.name, a.session, a.clients[1] as client
  from agent a
 where a.org_id = :org and a.clients <> '{}'
 order by a.last_seen_at desc
 limit %(most)s;

-- name: agents_page
-- Return a page of the agents that made calls in the last 30 days, latest first. Calls that only
-- read usually name no session. So for a user with sessions, the row without a session is left out
-- unless calls without a session changed something.
select u.input_tokens, u.output_tokens, u.cost_micros, u.results, a.name, a.session,
       to_json(a.clients) as clients, a.first_seen_at, a.last_seen_at, w.completed, w.failed,
       w.counted, app_now() as now
  from (select a.*
          from agent a
         where a.org_id = :org
           and a.last_seen_at >= (select app_now() - interval '30 days')
           and (a.last_seen_at, a.name, a.session)
               < (%(at)s::timestamptz, %(name)s::text, %(session)s::text)
           and (a.session <> ''
                or not exists (select from agent g where g.org_id = :org
                                                     and g.name = a.name and g.session <> '')
                or exists (select
                             from audit_entry e
                            where e.org_id = :org
                              and e.actor = a.name
                              and :session_of_entry = ''
                              and e.channel = 'mcp'
                              and e.at >= (select app_now() - interval '30 days')))
         order by a.last_seen_at desc, a.name desc, a.session desc
         limit %(most)s) a
 cross join lateral :work_of_agent w
 cross join lateral :usage_of_agent u
 order by a.last_seen_at desc, a.name desc, a.session desc;

-- name: agent
-- Return one agent with its work and usage in the last 30 days. An agent without recent calls is
-- known only from the audit.
select u.input_tokens, u.output_tokens, u.cost_micros, u.results, a.name, a.session,
       to_json(a.clients) as clients, a.first_seen_at, a.last_seen_at, w.completed, w.failed,
       w.counted, app_now() as now
  from (select g.name, g.session, g.clients, g.first_seen_at, g.last_seen_at
          from agent g
         where g.org_id = :org and g.name = %(name)s and g.session = %(session)s
         union all
        (select e.actor, :session_of_entry, '{}'::text[], null, e.at
           from audit_entry e
          where e.org_id = :org
            and e.actor = %(name)s
            and :session_of_entry = %(session)s
            and not exists (select from agent g
                             where g.org_id = :org
                               and g.name = %(name)s and g.session = %(session)s)
          order by e.at desc
          limit 1)) a
 cross join lateral :work_of_agent w
 cross join lateral :usage_of_agent u;

-- name: agent_counts
-- For each kind of event, count an agent's audit entries in a period. Only the latest are read.
select count(*) filter (where e.event = 'step_started') as started,
       count(*) filter (where e.event = 'step_completed') as completed,
       count(*) filter (where e.event = 'step_failed') as failed,
       count(*) filter (where e.event = 'user_reviewed'
                          and coalesce(e.brief, e.details) ->> 'action' = 'review_requested') as reviews,
       count(*) as entries
  from (select e.event, e.details, e.brief
          from audit_entry e
         where e.org_id = :org
           and e.actor = %(name)s
           and :session_of_entry = %(session)s::text
           and e.channel = 'mcp'
           and e.at >= %(since)s::timestamptz
           and e.at < %(until)s::timestamptz
         order by e.at desc
         limit %(counted)s) e;

-- name: held_steps
-- Return the held steps, longest held first, from the open plans with the latest activity. There is
-- no index of steps in progress, because a step's status could then not be updated in place.
select s.held_by, coalesce(s.held_session, '') as session, 'plan' as kind, p.id::text as work_id,
       p.name as work_name, s.id::text as item_id, s.step_order as number, :title_of_step as title,
       s.in_progress_since as since, p.revision
  from (select p.id, p.name, p.revision
          from (select p.id, p.name, p.revision, p.status, p.active_minute
                  from plan p
                 where p.org_id = :org and p.completed_at is null
                 order by p.active_minute desc
                 limit 2000) p
         where p.status <> 'planning'
         order by p.active_minute desc
         limit 500) p
 cross join lateral (select s.*
                       from plan_step s
                      where s.org_id = :org
                        and s.plan_id = p.id
                        and s.status = 'in_progress'
                        and s.held_by is not null
                        and (%(name)s::text is null
                             or s.held_by = %(name)s::text
                                and coalesce(s.held_session, '') = %(session)s::text)
                      limit 500) s
 order by s.in_progress_since, s.id
 limit 500;

-- name: held_jobs
select h.held_by, coalesce(h.held_session, '') as session, 'run' as kind, r.id::text as work_id,
       r.name as work_name, h.id::text as item_id, null::integer as number, h.step_key as title,
       h.started_at as since, null::integer as revision
  from (select j.id, j.run_id, j.step_key, j.held_by, j.held_session, j.started_at
          from job j
         where j.org_id = :org
           and j.status = 'processing'
           and j.held_by is not null
           and (%(name)s::text is null
                or j.held_by = %(name)s::text and coalesce(j.held_session, '') = %(session)s::text)
         limit 500) h
  join run r on r.org_id = :org and r.id = h.run_id
 order by h.started_at, h.id;

-- name: names
select 'plan' as kind, p.id::text, p.name, null::integer as number, null::text as work_id
  from plan p
 where p.org_id = :org and p.id = any (%(ids)s)
 union all
select 'run', r.id::text, r.name, null, null
  from run r
 where r.org_id = :org and r.id = any (%(ids)s)
 union all
select 'step', s.id::text, :title_of_step, s.step_order, s.plan_id::text
  from plan_step s
 where s.org_id = :org and s.id = any (%(ids)s)
 union all
select 'job', j.id::text, j.step_key || ', ' || j.model, null, j.run_id::text
  from job j
 where j.org_id = :org and j.id = any (%(ids)s)
 union all
select 'review', v.id, left(v.summary, %(wide)s), null, v.plan_id
  from review v
 where v.org_id = :org and v.id = any (%(ids)s)
 union all
select 'skill_execution', x.id::text, x.skill, null, null
  from skill_execution x
 where x.org_id = :org and x.id = any (%(uuids)s)
 union all
select 'artifact', a.id::text, a.title, null, a.plan_id::text
  from artifact a
 where a.org_id = :org and a.id = any (%(uuids)s);

-- name: runs_named
-- Return runs whose name contains a text. Only a limited number of the newest runs is searched.
select 'run' as kind, r.id::text, r.name, null::integer as number, null::text as work_id
  from (select r.id, r.name
          from run r where r.org_id = :org
         order by r.id desc
         limit %(newest)s) r
 where strpos(lower(r.name), lower(%(text)s::text)) > 0
 order by r.id desc
 limit %(most)s;

-- name: usage_by_time
-- Return the org's usage by hour, day or week in UTC, oldest first, for the models, agents or
-- workflows with the highest cost. The last place is all others.
select sum(g.input_tokens)::bigint as input_tokens, sum(g.output_tokens)::bigint as output_tokens,
       sum(g.cost_micros)::bigint as cost_micros, sum(g.results)::bigint as results,
       g.start at time zone 'UTC' as start, least(g.place, %(places)s::integer)::integer as place,
       case when g.place < %(places)s::integer then g.part else '' end as part
  from (select d.*, dense_rank() over (order by d.cost desc, d.tokens desc, d.part) as place
          from (select :usage_sums, u.start, u.part,
                       sum(sum(coalesce(u.cost_micros, 0))) over of_part as cost,
                       sum(sum(coalesce(u.input_tokens, 0) + coalesce(u.output_tokens, 0)))
                       over of_part as tokens
                  from (select u.input_tokens, u.output_tokens, u.cost_micros,
                               date_trunc(%(unit)s::text, u.at at time zone 'UTC') as start,
                               case %(by)s::text
                               when 'model' then coalesce(u.model, '')
                               when 'agent' then u.by
                               else coalesce(r.dag_slug, '') end as part
                          from usage u
                          left join run r on r.org_id = :org and r.id = u.run_id
                                         and %(by)s::text = 'workflow'
                         where u.org_id = :org and :usage_is_in_period) u
                 group by u.start, u.part
                window of_part as (partition by u.part)) d) g
 group by 5, 6, 7
 order by 5, 6
 limit %(most)s;

-- name: usage_by_agent
-- Return the org's usage per user and session, highest cost first.
select s.*, coalesce(a.clients, '{}') as clients
  from (select :usage_sums, u.by as name, :session_of_usage as session,
               count(*) over () as total
          from usage u
         where u.org_id = :org and :usage_is_in_period
         group by u.by, :session_of_usage
         order by 3 desc, 1 desc, 2 desc, u.by, 6
         limit %(most)s) s
  left join agent a on a.org_id = :org and a.name = s.name and a.session = s.session
 order by s.cost_micros desc, s.input_tokens desc, s.output_tokens desc, s.name, s.session;

-- name: results_without_usage
-- Count the steps and jobs completed in a period, and those without reported usage. Only the latest
-- audit entries are read.
select count(*) filter (where c.event = 'step_completed') as completed,
       count(*) filter (where c.event = 'step_completed'
                          and strpos(coalesce(c.brief, c.details)::text, '["usage",') = 0) as unreported,
       count(*) as counted
  from (select e.event, e.details, e.brief
          from audit_entry e
         where e.org_id = :org
           and e.at >= (select coalesce(%(since)s::timestamptz, app_now() - interval '30 days'))
           and e.at < (select coalesce(%(until)s::timestamptz, 'infinity'))
         order by e.at desc
         limit %(most)s) c;

-- name: spans
-- Return what agents worked on in a period, newest first: from the claim of a step or job to its
-- end or to its next claim. Only the latest audit entries are read, and spans without an end go on.
select e.actor, e.session, e.kind, e.work_id, e.item_id, e.at as start,
       e.ended_at, e.ending
  from (select e.*, lead(e.at) over of_item as ended_at, lead(e.event) over of_item as ending
          from (select e.actor, :session_of_entry as session, e.subject as kind, e.at, e.seq,
                       e.event,
                       e.subject_id as work_id,
                       coalesce(e.details ->> 'stepId', e.details ->> 'jobId') as item_id
                  from audit_entry e
                 where e.org_id = :org
                   and e.event in ('step_started', 'step_completed', 'step_failed', 'user_reviewed')
                   and e.at >= %(since)s::timestamptz
                   and (%(name)s::text is null
                        or e.actor = %(name)s::text and :session_of_entry = %(session)s::text)
                 order by e.at desc
                 limit %(most)s) e
        window of_item as (partition by e.item_id order by e.at, e.seq)) e
 where e.event = 'step_started'
 order by e.at desc;

-- name: agent_days
-- Count the results of each agent on each day in UTC, among the latest audit entries.
select e.actor, e.session, e.day::text, count(*) as results
  from (select e.actor, :session_of_entry as session, (e.at at time zone 'UTC')::date as day
          from audit_entry e
         where e.org_id = :org
           and e.event = 'step_completed'
           and e.channel = 'mcp'
           and e.at >= (select app_now() - interval '30 days')
         order by e.at desc
         limit %(most)s) e
 group by e.actor, e.session, e.day
 limit 3000;
