-- name: subject
-- Return which plan, step, run or job has this id.
select p.id::text as plan_id, null::text as step_id, null::text as run_id, null::text as job_id
  from plan p where p.org_id = :org and p.id = %(id)s
 union all
select s.plan_id::text, s.id::text, null, null
  from plan_step s where s.org_id = :org and s.id = %(id)s
 union all
select null, null, r.id::text, null
  from run r where r.org_id = :org and r.id = %(id)s
 union all
select null, null, j.run_id::text, j.id::text
  from job j where j.org_id = :org and j.id = %(id)s;

-- name: before_comment
-- Return what the rule for a new comment needs: the number of open comments of the thread up to a
-- limit, which of the comments to resolve exist and are open, and the users whom the text or the
-- assignee may name.
select (select count(*)
          from (select from comment m
                 where :comment_is_in_thread and m.resolved_at is null
                 limit %(most)s) m) as open_count,
       (select json_agg(json_build_array(m.id, m.resolved_at is null))
          from comment m
         where m.org_id = :org and m.id = any (%(ids)s)
           and (m.plan_id = %(plan_id)s or m.run_id = %(run_id)s)) as named,
       (select json_agg(u.name)
          from org_user u
         where u.org_id = :org and u.disabled_at is null
           and (u.name = %(assignee)s
                or strpos(lower(%(body)s), '@' || lower(u.name)) > 0)) as people;

-- name: insert_comment
insert into comment (:columns_of_comment) values (:values_of_comment);

-- name: resolve_comment
with written as (
  update comment
     set resolved_at = %(resolved_at)s, resolved_by = %(resolved_by)s
   where org_id = :org and id = %(id)s and resolved_at is null
  returning 1)
select :one_row_or_stale from written;

-- name: thread
-- Return a page of a thread, newest first. Open comments of other pages are not counted.
select :row_of_comment, app_now() as now
  from comment m
 where :comment_is_in_thread
   and (not %(only_open)s or m.resolved_at is null)
   and m.id < %(before)s
 order by m.id desc
 limit %(most)s;

-- name: rows_of_run
select 'comment' as entity, m.id::text, json_build_object(:audit_of_comment) as values
  from comment m
 where m.org_id = :org and m.run_id = %(run_id)s;

-- name: people
select u.name from org_user u
 where u.org_id = :org and u.disabled_at is null
 order by u.name
 limit %(most)s;

-- name: of_person
-- Among the newest open comments with a text, return those that are assigned to a person or may
-- mention the person, newest first.
select :row_of_comment, app_now() as now,
       coalesce(p.name, r.name) as work_name, s.step_order,
       coalesce(s.title, j.step_key) as title
  from (select m.*
          from (select m.*
                  from comment m
                 where m.org_id = :org and m.resolved_at is null
                 order by m.id desc
                 limit %(walked)s) m
         where m.body <> ''
           and (m.assignee = %(person)s or strpos(lower(m.body), '@' || lower(%(person)s)) > 0)
         order by m.id desc
         limit %(most)s) m
  left join plan p on p.org_id = :org and p.id = m.plan_id
  left join run r on r.org_id = :org and r.id = m.run_id
  left join plan_step s on s.org_id = :org and s.id = m.step_id
  left join job j on j.org_id = :org and j.id = m.job_id
 order by m.id desc;

-- name: run_assignees
-- Return the assignees of these runs: those of the newest open assignments of the runs as a whole.
select distinct on (m.run_id) m.run_id::text, m.assignee
  from comment m
 where m.org_id = :org and m.run_id = any (%(ids)s)
   and m.job_id is null and m.assignee is not null and m.resolved_at is null
 order by m.run_id, m.id desc;
