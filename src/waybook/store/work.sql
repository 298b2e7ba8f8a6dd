-- name: count_work
-- Count the open work of an org. Each count reads a limited number of rows.
select (select count(*)
          from (select
                  from (select p.id
                          from plan p
                         where p.org_id = :org and p.completed_at is null
                         order by p.id desc
                         limit %(plans)s) p
                  join plan_step s on s.org_id = :org and s.plan_id = p.id
                 where s.status = 'in_progress'
                 limit %(most)s) s) as steps,
       (select count(*)
          from (select
                  from job j
                 where j.org_id = :org and j.status = 'processing'
                 limit %(most)s) j) as jobs,
       (select count(*)
          from (select
                  from job j
                 where j.org_id = :org and j.completed_at is null and j.job_type = 'RENDER'
                 limit %(most)s) j) as documents,
       (select count(*)
          from (select
                  from webhook_delivery d
                 where d.org_id = :org and d.status = 'waiting'
                 limit %(most)s) d) as deliveries,
       (select count(*) filter (where d.status = 'given_up')
          from (select d.status
                  from webhook_delivery d
                 where d.org_id = :org
                 order by d.at desc, d.id desc
                 limit %(most)s) d) as failed_deliveries,
       (select count(*)
          from (select
                  from webhook_delivery d
                 where d.org_id = :org and d.status = 'waiting'
                   and d.due_at < app_now() - make_interval(secs => %(overdue)s)
                 limit %(most)s) d) as overdue_deliveries;
