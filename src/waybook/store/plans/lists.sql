-- name: plans_by_creation
-- A page of plans in an order that does not change while they do: newest plan first. Open ones
-- are found by their own index, however many are over.
select :row_of_plan
  from ((select p.id, p.name, p.status, p.revision, p.updated_at
           from plan p
          where %(open_only)s
            and p.completed_at is null
            and p.id < %(before)s::uuid
            and :plan_is_asked_for
          order by p.id desc
          limit %(most)s)
         union all
        (select p.id, p.name, p.status, p.revision, p.updated_at
           from plan p
          where not %(open_only)s
            and p.id < %(before)s::uuid
            and :plan_is_asked_for
          order by p.id desc
          limit %(most)s)) p
  join plan_brief b on b.plan_id = p.id
 order by p.id desc;

-- name: plans_by_activity
-- A page of plans, newest activity first. Open ones are found by their own index.
select :row_of_plan
  from ((select p.id, p.name, p.status, p.revision, p.updated_at
           from plan p
          where %(open_only)s
            and p.completed_at is null
            and :plan_is_less_active
            and :plan_is_asked_for
          order by p.updated_at desc, p.id desc
          limit %(most)s)
         union all
        (select p.id, p.name, p.status, p.revision, p.updated_at
           from plan p
          where not %(open_only)s
            and :plan_is_less_active
            and :plan_is_asked_for
          order by p.updated_at desc, p.id desc
          limit %(most)s)) p
  join plan_brief b on b.plan_id = p.id
 order by p.updated_at desc, p.id desc;

-- name: count_plans
-- How many plans are in each state: all open ones, and of the others the newest so many.
select p.status, count(*) as plans
  from plan p
 where p.completed_at is null
 group by p.status
 union all
select c.status, count(*)
  from (select p.status
          from plan p
         where p.completed_at is not null
         order by p.id desc
         limit %(most)s) c
 group by c.status;

-- name: open_reviews
-- What waits for a person, longest waiting first.
select :row_of_review
  from :review_with_its_step
 where r.decision is null
   and p.completed_at is null
   and (%(plan_id)s::uuid is null or r.plan_id = %(plan_id)s::uuid)
 order by r.requested_at, r.id
 limit %(most)s;

-- name: one_review
-- A review, open or decided, as it stands now.
select :row_of_review
  from :review_with_its_step
 where r.id = %(review_id)s;

-- name: review_lines
-- What waits for a person, longest waiting first, a line of each.
select r.id::text, p.id::text as plan_id, p.name as plan_name, s.step_order,
       left(r.summary, %(wide)s) as summary, r.requested_at as since
  from review r
  join plan p on p.id = r.plan_id
  join plan_step s on s.id = r.step_id
 where r.decision is null
   and p.completed_at is null
 order by r.requested_at, r.id
 limit %(most)s;

-- name: waiting
-- How many reviews, and how many runs, wait for a person.
select (select count(*)
          from review r
          join plan p on p.id = r.plan_id
         where r.decision is null
           and p.completed_at is null) as reviews,
       (select count(*)
          from run r
         where r.completed_at is null
           and exists (select from stage_run g where g.run_id = r.id and g.feedback is null)
           and not exists (select from stage_run g where g.run_id = r.id and g.completed_at is null))
         as runs,
       app_now() as now;
