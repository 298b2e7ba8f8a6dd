-- name: activity_counts
-- Count the work done in an org since a time. Only a limited number of the newest audit entries and
-- usage records is read.
with latest as materialized (
  select e.subject, e.subject_id, e.event
    from audit_entry e
   where e.org_id = :org and e.at > %(since)s::timestamptz
   order by e.at desc
   limit %(most)s
)
select count(*) filter (where l.event = 'step_completed' and l.subject = 'plan') as steps,
       count(distinct l.subject_id) filter (where l.event = 'step_completed'
                                              and l.subject = 'plan') as plans,
       count(*) filter (where l.event = 'step_completed' and l.subject = 'run') as jobs,
       count(distinct l.subject_id) filter (where l.event = 'step_completed'
                                              and l.subject = 'run') as runs,
       count(*) filter (where l.event = 'step_failed') as failures,
       count(*) >= %(most)s as is_partial,
       (select coalesce(sum(u.cost_micros), 0)::bigint
          from (select u.cost_micros
                  from usage u
                 where u.org_id = :org and u.at > %(since)s::timestamptz
                 order by u.at desc
                 limit %(most)s) u) as cost_micros
  from latest l;

-- name: decisions_since
-- Return how many reviews each user decided since a time, and how. The user with the most decisions
-- comes first.
select d.actor as user, d.decision, count(*) as reviews
  from (select e.actor, e.event, e.details ->> 'decision' as decision
          from audit_entry e
         where e.org_id = :org and e.at > %(since)s::timestamptz
         order by e.at desc
         limit %(most)s) d
 where d.event = 'user_reviewed' and d.decision is not null
 group by d.actor, d.decision
 order by reviews desc, d.actor, d.decision
 limit %(users)s;
