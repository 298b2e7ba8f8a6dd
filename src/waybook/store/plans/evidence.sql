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
