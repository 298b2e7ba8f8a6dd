-- name: lock_caps
-- Lock the caps of a plan or run, of an agent and of the org. Every call locks them in the same
-- order, so that concurrent calls cannot deadlock.
select c.id from work_cap c where :cap_applies order by c.id for update;

-- name: caps_of
-- Return the caps of a plan or run, of an agent and of the org, with what is reserved.
:caps_with_reservations
   and :cap_applies
 order by c.id;

-- name: cap
:caps_with_reservations
   and c.id = %(id)s;

-- name: caps
:caps_with_reservations
 order by c.id desc
 limit %(most)s;

-- name: paused_caps
-- Return the caps at which work waits for a person, longest first, with the names of their plans or
-- runs.
select k.*,
       coalesce((select p.name from plan p where p.org_id = :org and p.id = k.subject),
                (select r.name from run r where r.org_id = :org and r.id = k.subject)) as name
  from (:caps_with_reservations
           and :cap_is_paused
         order by c.paused_at, c.id
         limit %(most)s) k
 order by k.paused_at, k.id;

-- name: lock_cap
select c.id from work_cap c where c.org_id = :org and c.id = %(id)s for update;

-- name: insert_cap
insert into work_cap (id, scope, subject, period, unit, most, asked, day, created_at, created_by)
values (%(id)s, %(scope)s, %(subject)s, %(period)s, %(unit)s, %(most)s, %(most)s,
        (app_now() at time zone 'UTC')::date, %(now)s, %(by)s);

-- name: set_limit
-- Set the limit of a cap. Work that it paused may ask again.
update work_cap
   set most = %(most)s, asked = %(most)s, paused_at = null, ended_at = null
 where org_id = :org and id = %(id)s;

-- name: raise_cap
-- Set a limit that a person chose. Work that the cap paused or ended may ask again.
update work_cap
   set most = %(most)s, paused_at = null, ended_at = null
 where org_id = :org and id = %(id)s;

-- name: resume_cap
update work_cap set paused_at = null where org_id = :org and id = %(id)s;

-- name: end_cap
update work_cap set ended_at = %(now)s where org_id = :org and id = %(id)s;

-- name: pause_cap
update work_cap
   set paused_at = coalesce(paused_at, %(now)s)
 where org_id = :org and id = %(id)s;

-- name: settle_cap
update work_cap
   set used = %(used)s, day = (app_statement_time() at time zone 'UTC')::date
 where org_id = :org and id = %(id)s;

-- name: count_open
select count(*) as open
  from (select
          from work_reservation r
         where r.org_id = :org and r.settled_at is null
           and r.expires_at > app_now() - interval '7 days'
         limit %(most)s) r;

-- name: insert_reservation
insert into work_reservation (id, plan_id, run_id, agent, tokens, cost_micros, seconds, lease,
                              expires_at)
values (%(id)s, %(plan_id)s, %(run_id)s, %(agent)s, %(tokens)s, %(cost_micros)s, %(seconds)s,
        %(lease)s::integer, %(now)s::timestamptz + make_interval(secs => %(lease)s::integer));

-- name: forget_reservations
-- Delete reservations that expired a week ago, a limited number at a time.
delete from work_reservation
 where org_id = :org
   and id in (select r.id
                from work_reservation r
               where r.org_id = :org and r.expires_at < app_statement_time() - interval '7 days'
               order by r.expires_at
               limit 100);

-- name: lock_reservation
select r.plan_id, r.run_id, r.agent, r.settled_at
  from work_reservation r
 where r.org_id = :org and r.id = %(id)s
   for update;

-- name: settle_reservation
update work_reservation set settled_at = app_statement_time() where org_id = :org and id = %(id)s;

-- name: renew_reservation
update work_reservation
   set expires_at = app_statement_time() + make_interval(secs => lease)
 where org_id = :org and id = %(id)s and settled_at is null
returning id::text;

-- name: report
insert into worker (name, session, agent, host, state, until, reason, plan_id, run_id, step_id,
                    job_id, lines, expires_at)
values (%(name)s, %(session)s, %(agent)s, %(host)s, %(state)s, %(until)s, %(reason)s, %(plan_id)s,
        %(run_id)s, %(step_id)s, %(job_id)s, %(lines)s,
        app_statement_time() + make_interval(secs => %(seconds)s))
    on conflict (org_id, name, session) do update
   set agent = excluded.agent, host = excluded.host, state = excluded.state,
       until = excluded.until, reason = excluded.reason, plan_id = excluded.plan_id,
       run_id = excluded.run_id, step_id = excluded.step_id, job_id = excluded.job_id,
       lines = excluded.lines, reported_at = excluded.reported_at,
       expires_at = excluded.expires_at
returning expires_at;

-- name: sleep_until
-- Show that an agent sleeps until a time. The row of a worker that reports keeps its output.
insert into worker (name, session, agent, state, until, reason, plan_id, run_id, expires_at)
values (%(name)s, %(session)s, %(agent)s, 'sleeping', %(until)s, %(reason)s, %(plan_id)s, %(run_id)s,
        %(until)s)
    on conflict (org_id, name, session) do update
   set state = 'sleeping', until = excluded.until, reason = excluded.reason,
       plan_id = excluded.plan_id, run_id = excluded.run_id, step_id = null, job_id = null,
       expires_at = greatest(worker.expires_at, excluded.expires_at);

-- name: forget_workers
-- Delete the row of this worker and rows that expired a day ago.
delete from worker
 where org_id = :org
   and (name = %(name)s and session = %(session)s
        or expires_at < app_statement_time() - interval '1 day');

-- name: workers
-- Return the workers that reported lately, of all plans and runs or of one, latest first.
select w.name, w.session, w.agent, w.host, w.state, w.until, w.reason, w.plan_id, w.run_id,
       w.step_id, w.job_id, w.lines, w.started_at, w.reported_at,
       coalesce((select p.name from plan p where p.org_id = :org and p.id = w.plan_id),
                (select r.name from run r where r.org_id = :org and r.id = w.run_id)) as work
  from worker w
 where w.org_id = :org
   and w.expires_at > app_statement_time()
   and (%(work_id)s::text is null
        or w.plan_id = %(work_id)s::text or w.run_id = %(work_id)s::text)
   and (%(name)s::text is null
        or w.name = %(name)s::text and w.session = %(session)s::text)
 order by w.reported_at desc, w.name, w.session
 limit %(most)s;
