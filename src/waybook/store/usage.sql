-- name: insert_own_usage
-- What the server's own model took: it is nobody's step and nobody's job, and no audit speaks of it.
insert into usage (id, attempt, input_tokens, output_tokens, cost_micros, model, at, by)
values (%(id)s, 1, %(input_tokens)s, %(output_tokens)s, %(cost_micros)s, %(model)s, %(at)s, %(by)s);

-- name: usage_totals
-- What the org's work took since then, or in the last thirty days.
select coalesce(sum(u.input_tokens), 0)::bigint, coalesce(sum(u.output_tokens), 0)::bigint,
       coalesce(sum(u.cost_micros), 0)::bigint, count(*),
       coalesce(%(since)s::timestamptz, app_now() - interval '30 days'), app_now()
  from usage u
 where u.at >= coalesce(%(since)s::timestamptz, app_now() - interval '30 days');

-- name: usage_by_model
-- The same for each model, what cost most first; behind it how many there are.
select coalesce(sum(u.input_tokens), 0)::bigint, coalesce(sum(u.output_tokens), 0)::bigint,
       coalesce(sum(u.cost_micros), 0)::bigint, count(*), u.model, count(*) over ()
  from usage u
 where u.at >= coalesce(%(since)s::timestamptz, app_now() - interval '30 days')
 group by u.model
 order by 3 desc, 1 desc, 2 desc, u.model
 limit %(most)s;

-- name: usage_by_work
-- The same for each plan and each run, and for the server's own model.
select g.input_tokens, g.output_tokens, g.cost_micros, g.results,
       g.plan_id::text, g.run_id::text, coalesce(p.name, r.name, 'extract_data'), g.there
  from (select coalesce(sum(u.input_tokens), 0)::bigint as input_tokens,
               coalesce(sum(u.output_tokens), 0)::bigint as output_tokens,
               coalesce(sum(u.cost_micros), 0)::bigint as cost_micros,
               count(*) as results, u.plan_id, u.run_id, count(*) over () as there
          from usage u
         where u.at >= coalesce(%(since)s::timestamptz, app_now() - interval '30 days')
         group by u.plan_id, u.run_id
         order by 3 desc, 1 desc, 2 desc, u.plan_id, u.run_id
         limit %(most)s) g
  left join plan p on p.id = g.plan_id
  left join run r on r.id = g.run_id
 order by 3 desc, 1 desc, 2 desc, g.plan_id, g.run_id;

-- name: usage_of_steps
-- What each step of a plan took, over all its attempts; a step may be gone by now.
select coalesce(sum(u.input_tokens), 0)::bigint, coalesce(sum(u.output_tokens), 0)::bigint,
       coalesce(sum(u.cost_micros), 0)::bigint, count(*), u.step_id::text
  from usage u
 where u.plan_id = %(plan_id)s
 group by u.step_id;
