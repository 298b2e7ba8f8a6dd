-- name: finished_runs
-- Return the time, cost and number of jobs of a workflow's completed runs, latest end first. The
-- workflow is given by its slug or by a run. Copied runs are left out, because the work of their
-- earlier stages was done in another run.
select extract(epoch from r.completed_at - b.created_at)::float8 as seconds,
       (r.usage ->> 'cost_micros')::bigint as cost_micros,
       coalesce((select sum(s.done) from stage_step s where s.org_id = :org
                                                        and s.run_id = r.id), 0)::bigint as jobs
  from (select n.*
          from (select w.id, w.dag_slug, w.completed_at, w.copied_from, w.usage
                  from run w
                 where w.org_id = :org and w.completed_at is not null
                 order by w.completed_at desc
                 limit %(newest)s) n
         where n.dag_slug = coalesce(%(slug)s::text, (select r.dag_slug
                                                from run r
                                               where r.org_id = :org
                                                 and r.id = %(run_id)s::uuid))
           and n.copied_from is null
         order by n.completed_at desc, n.id desc
         limit %(most)s) r
  join run_brief b on b.org_id = :org and b.run_id = r.id
 order by r.completed_at desc, r.id desc;

-- name: result_costs
select u.cost_micros
  from usage u
 where u.org_id = :org
   and u.run_id = %(run_id)s
   and u.cost_micros is not null
 order by u.at desc, u.id desc
 limit %(most)s;

-- name: known_models
-- Return the models with which stages of the org's newest runs were started, most recent first.
select m.model
  from (select r.id
          from run r where r.org_id = :org
         order by r.id desc
         limit %(runs)s) n
  join stage_run g on g.org_id = :org and g.run_id = n.id
  cross join lateral json_array_elements_text(g.models) as m(model)
 group by m.model
 order by max(g.started_at) desc, m.model
 limit %(most)s;
