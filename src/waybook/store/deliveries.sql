-- name: insert_delivery
insert into webhook_delivery (id, event, subject_id, data, at, due_at, expires_at)
values (%(id)s, %(event)s, %(subject_id)s, %(data)s, %(at)s, %(at)s, %(expires_at)s)
on conflict (org_id, id) do nothing
returning id::text;

-- name: overdue_reviews
-- Return open reviews that have waited too long and have no reminder yet. A reminder's id is
-- derived from its review's id, so that several processes store it only once. A review whose
-- deadline passed long ago gets no reminder, because its reminder may have been deleted already.
select r.id::text as review_id, r.plan_id::text, n.id::text as reminder_id,
       r.requested_at + make_interval(secs => %(patience)s) as due_at
  from review r
  join plan p on p.org_id = :org and p.id = r.plan_id
 cross join lateral (
       select encode(substring(sha256(convert_to(r.id, 'UTF8')) from 1 for 16), 'hex')::uuid as id) n
 where r.org_id = :org
   and r.decision is null
   and p.completed_at is null
   and r.requested_at <= app_now() - make_interval(secs => %(patience)s)
   and r.requested_at > app_now() - make_interval(secs => %(patience)s, days => 7)
   and not exists (select from webhook_delivery d where d.org_id = :org and d.id = n.id)
 order by r.requested_at, r.id
 limit %(most)s;

-- name: claim
-- Claim due webhook deliveries for a limited time. Skip deliveries that another process is
-- claiming.
with due as materialized (
  select org_id, id, app_statement_time() as now
    from webhook_delivery
   where org_id = :org and status = 'waiting' and due_at <= app_statement_time()
   order by due_at
   limit %(most)s
     for update skip locked
)
update webhook_delivery d
   set attempt = d.attempt + 1,
       due_at = app_statement_time() + make_interval(secs => %(lease)s)
  from due
 where d.org_id = :org and d.org_id = due.org_id and d.id = due.id
returning d.id::text, d.event, d.data, d.at, due.now, d.attempt, d.expires_at;

-- name: record_outcome
-- Record the outcome of a try to deliver a message. A success is recorded even if another process
-- has claimed the delivery since.
update webhook_delivery
   set status = %(status)s,
       due_at = %(due_at)s,
       settled_at = app_statement_time()
                    + case when %(status)s <> 'waiting' then interval '0' end,
       answered = %(answered)s,
       fault = %(fault)s
 where org_id = :org
   and id = %(id)s and status = 'waiting'
   and (attempt = %(attempt)s or %(status)s = 'delivered');

-- name: unindex
delete from webhook_delivery
 where org_id = :org
   and status <> 'waiting' and at < app_statement_time() - interval '30 days';

-- name: latest
select id::text, event, subject_id::text, data, status, attempt, at, due_at, settled_at, answered,
       fault as error
  from webhook_delivery
 where org_id = :org and (%(id)s::uuid is null or id = %(id)s::uuid)
 order by at desc, id desc
 limit %(most)s;

-- name: retry_delivery
-- Reset a delivery, so that its message is sent again with the same id and a new deadline.
update webhook_delivery
   set status = 'waiting', attempt = 0, due_at = app_statement_time(), settled_at = null,
       answered = null,
       fault = null, expires_at = app_statement_time() + make_interval(secs => %(patience)s)
 where org_id = :org and id = %(id)s
returning id::text;

-- name: delivery_counts
select count(*) filter (where status = 'waiting') as waiting,
       count(*) filter (where status = 'waiting'
                          and due_at < app_now() - interval '2 minutes') as overdue,
       count(*) filter (where status = 'given_up') as given_up,
       min(at) filter (where status = 'waiting') as oldest_waiting_at,
       max(settled_at) filter (where status = 'delivered') as last_delivered_at
  from webhook_delivery where org_id = :org;

-- name: count_work
-- Count the open work of an org. Each count reads a limited number of rows.
select (select count(*)
          from (select
                  from (select p.id
                          from plan p
                         where p.org_id = :org and p.completed_at is null
                         order by p.id desc
                         limit 1000) p
                  join plan_step s on s.org_id = :org and s.plan_id = p.id
                 where s.status = 'in_progress'
                 limit 1000) s) as steps,
       (select count(*)
          from (select
                  from job j
                 where j.org_id = :org and j.status = 'processing'
                 limit 1000) j) as jobs,
       (select count(*)
          from (select
                  from job j
                 where j.org_id = :org and j.completed_at is null and j.job_type = 'RENDER'
                 limit 1000) j) as documents,
       (select count(*)
          from (select
                  from webhook_delivery d
                 where d.org_id = :org and d.status = 'waiting'
                 limit 1000) d) as deliveries,
       (select count(*) filter (where d.status = 'given_up')
          from (select d.status
                  from webhook_delivery d
                 where d.org_id = :org
                 order by d.at desc, d.id desc
                 limit 1000) d) as failed_deliveries,
       (select count(*)
          from (select
                  from webhook_delivery d
                 where d.org_id = :org and d.status = 'waiting'
                   and d.due_at < app_now() - interval '2 minutes'
                 limit 1000) d) as overdue_deliveries,
       w.working, w.sleeping, w.parked, w.draining
  from (select count(*) filter (where w.state = 'working') as working,
               count(*) filter (where w.state = 'sleeping') as sleeping,
               count(*) filter (where w.state = 'parked') as parked,
               count(*) filter (where w.state = 'draining') as draining
          from (select w.state
                  from worker w
                 where w.org_id = :org and w.expires_at > app_statement_time()
                 limit 1000) w) w;
