-- name: plans_by_creation
-- Return a page of plans, newest first. This order does not change when plans change. Open plans
-- have their own index, so the number of closed plans does not matter.
select :row_of_plan
  from ((select p.id, p.name, p.status, p.canceled, p.revision, p.updated_at, p.usage
           from plan p
          where p.org_id = :org
            and %(open_only)s
            and p.completed_at is null
            and p.id < %(before)s::text
            and :plan_is_asked_for
          order by p.id desc
          limit %(most)s)
         union all
        (select p.id, p.name, p.status, p.canceled, p.revision, p.updated_at, p.usage
           from plan p
          where p.org_id = :org
            and not %(open_only)s
            and p.id < %(before)s::text
            and :plan_is_asked_for
          order by p.id desc
          limit %(most)s)) p
  :details_of_plan
 order by p.id desc;

-- name: plans_in_state
select :row_of_plan
  from (select p.id, p.name, p.status, p.canceled, p.revision, p.updated_at, p.usage
          from plan p
         where p.org_id = :org
           and p.status = :status_of_asked_state
           and p.id < %(before)s::text
           and :plan_is_asked_for
         order by p.id desc
         limit %(most)s) p
  :details_of_plan
 order by p.id desc;

-- name: plans_of_creator
select :row_of_plan
  from (select p.id, p.name, p.status, p.canceled, p.revision, p.updated_at, p.usage
          from plan_brief o
          join plan p on p.org_id = :org and p.id = o.plan_id
         where o.org_id = :org
           and o.created_by = %(creator)s::text
           and o.plan_id < %(before)s::text
           and (not %(open_only)s or p.completed_at is null)
           and :plan_is_asked_for
         order by o.plan_id desc
         limit %(most)s) p
  :details_of_plan
 order by p.id desc;

-- name: plans_by_activity
-- Return a page of plans, most recent activity first. Open and closed plans have separate indexes
-- by the minute of their last activity, and the plans of one minute are sorted. The filters are
-- applied after a limit on the sorted plans. Otherwise the planner expects that hardly any plan
-- matches, and may sort all of them.
select :row_of_plan
  from (select p.*
          from ((select p.id, p.name, p.status, p.canceled, p.revision, p.updated_at, p.usage
                   from (select p.id, p.name, p.status, p.canceled, p.revision, p.updated_at, p.usage, p.active_minute
                           from plan p
                          where p.org_id = :org and p.completed_at is null
                            and :plan_is_less_active
                          order by p.active_minute desc, p.updated_at desc, p.id desc
                          limit :limit_of_all_plans) p
                  where :plan_is_asked_for
                  order by p.active_minute desc, p.updated_at desc, p.id desc
                  limit %(most)s)
                 union all
                (select p.id, p.name, p.status, p.canceled, p.revision, p.updated_at, p.usage
                   from (select p.id, p.name, p.status, p.canceled, p.revision, p.updated_at, p.usage, p.active_minute
                           from plan p
                          where p.org_id = :org and not %(open_only)s
                            and p.completed_at is not null
                            and :plan_is_less_active
                          order by p.active_minute desc, p.updated_at desc, p.id desc
                          limit :limit_of_all_plans) p
                  where :plan_is_asked_for
                  order by p.active_minute desc, p.updated_at desc, p.id desc
                  limit %(most)s)) p
         order by p.updated_at desc, p.id desc
         limit %(most)s) p
  :details_of_plan
 order by p.updated_at desc, p.id desc;

-- name: plans_with_text
-- Return a page of plans whose id begins with a text or whose name contains the text. First, a
-- limited number of the newest plans is read. If too few match, plans are looked up by the rarest
-- word of the text, so that the number of other plans does not matter.
with :words_asked,
rarest as materialized (
  select a.first, a.last
    from asked a
   cross join lateral (select count(*) as plans
                         from (select
                                 from plan_word n
                                where n.org_id = :org and n.word >= a.first and n.word < a.last
                                limit %(named)s) n) c
   order by c.plans, length(a.first) desc, a.first
   limit 1
),
walked as materialized (
  select p.id
    from ((select p.id, p.name
             from plan p
            where p.org_id = :org
              and coalesce(%(state)s::text, 'pending') = 'pending'
              and %(creator)s::text is null and %(open_only)s
              and p.completed_at is null
              and p.id < %(before)s::text
              and :plan_is_asked_for
            order by p.id desc
            limit %(walked)s)
           union all
          (select p.id, p.name
             from plan p
            where p.org_id = :org
              and %(state)s::text is null and %(creator)s::text is null and not %(open_only)s
              and p.id < %(before)s::text
            order by p.id desc
            limit %(walked)s)
           union all
          (select p.id, p.name
             from plan p
            where p.org_id = :org
              and p.status = :status_of_asked_state
              and p.id < %(before)s::text
              and :plan_is_asked_for
            order by p.id desc
            limit %(walked)s)
           union all
          (select p.id, p.name
             from plan_brief o
             join plan p on p.org_id = :org and p.id = o.plan_id
            where o.org_id = :org
              and %(state)s::text is null
              and o.created_by = %(creator)s::text
              and o.plan_id < %(before)s::text
              and (not %(open_only)s or p.completed_at is null)
            order by o.plan_id desc
            limit %(walked)s)) p
   where :plan_has_text
   order by p.id desc
   limit %(enough)s)
select :row_of_plan
  from (select p.id, p.name, p.status, p.canceled, p.revision, p.updated_at, p.usage
          from (select w.id from walked w
                 union
                (select i.id
                   from plan i
                  where i.org_id = :org
                    and i.id >= %(first_id)s::text and i.id <= %(last_id)s::text
                    and i.id < %(before)s::text
                  order by i.id desc
                  limit %(walked)s)
                 union
                select n.id
                  from (select n.plan_id as id
                          from rarest a
                         cross join lateral (select n.plan_id
                                               from plan_word n
                                              where n.org_id = :org
                                                and n.word = a.first
                                                and n.plan_id < %(before)s::text
                                              order by n.plan_id desc
                                              limit %(named)s) n
                         union all
                        select n.plan_id
                          from rarest a
                         cross join lateral (select n.plan_id
                                               from plan_word n
                                              where n.org_id = :org
                                                and n.word > a.first and n.word < a.last
                                              limit %(named)s) n) n
                 where (select count(*) from walked) < %(enough)s) f
          join plan p on p.org_id = :org and p.id = f.id
         where p.id < %(before)s::text
           and (not %(open_only)s or p.completed_at is null)
           and :plan_is_asked_for
           and (:plan_has_text or p.id >= %(first_id)s::text and p.id <= %(last_id)s::text)
         order by case when %(by_activity)s then p.updated_at end desc, p.id desc
         limit %(most)s) p
  :details_of_plan
 order by case when %(by_activity)s then p.updated_at end desc, p.id desc;

-- name: count_plans
-- Return the number of plans in each state that people see, as `shown_plan`, and whether there may be
-- more. Of each stored status, only a limited number is read; closed plans only on request. Each
-- status is a constant, so that the planner knows how many plans have it. Otherwise it may read all
-- plans of the org to find those in a rare status.
select 'pending' as state, count(*) as plans, count(*) >= %(most)s as is_minimum
  from (select
          from plan p
         where p.org_id = :org and p.status = 'planning'
         order by p.id desc
         limit %(most)s) p
 union all
select case when p.is_held then 'in_progress' else 'pending' end, count(*),
       sum(count(*)) over () >= %(most)s
  from (select :plan_is_held as is_held
          from plan p
         where p.org_id = :org and p.status = 'executing'
         order by p.id desc
         limit %(most)s) p
 group by p.is_held
 union all
select 'awaiting_input', count(*), count(*) >= %(most)s
  from (select
          from plan p
         where p.org_id = :org and p.status = 'awaiting_review'
         order by p.id desc
         limit %(most)s) p
 union all
select case when p.is_held then 'stalled' else 'pending' end, count(*),
       sum(count(*)) over () >= %(most)s
  from (select :plan_is_held as is_held
          from plan p
         where p.org_id = :org and p.status = 'stalled'
         order by p.id desc
         limit %(most)s) p
 group by p.is_held
 union all
select 'completed', count(*), count(*) >= %(most)s
  from (select
          from plan p
         where p.org_id = :org and p.status = 'completed' and %(closed)s
         order by p.id desc
         limit %(most)s) p
 union all
select 'failed', count(*), count(*) >= %(most)s
  from (select
          from plan p
         where p.org_id = :org and p.status = 'failed' and p.canceled is null and %(closed)s
         order by p.id desc
         limit %(most)s) p
 union all
select 'canceled', count(*), count(*) >= %(most)s
  from (select
          from plan p
         where p.org_id = :org and p.canceled and %(closed)s
         order by p.id desc
         limit %(most)s) p;

-- name: open_reviews
select :row_of_review
  from :review_with_its_step
 where r.decision is null
   and p.completed_at is null
   and (%(plan_id)s::text is null or r.plan_id = %(plan_id)s::text)
   and (%(assignee)s::text is null or :assignee_of_step = %(assignee)s)
 order by r.requested_at, r.id
 limit %(most)s;

-- name: decided_reviews
-- Return the decided ones of the newest reviews, those requested last first.
select :row_of_review
  from :review_with_its_step
 where r.decision is not null
   and r.id in (select n.id
                  from review n
                 where n.org_id = :org
                 order by n.id desc
                 limit %(walked)s)
 order by r.id desc
 limit %(most)s;

-- name: one_review
select :row_of_review
  from :review_with_its_step
 where r.id = %(review_id)s;

-- name: review_outcome
-- Return a review with its decision, and the end of its plan.
select r.id::text, r.plan_id::text, r.step_id::text, r.summary, r.questions, r.requested_at,
       r.requested_as, r.decision, r.feedback, r.decided_by, r.decided_at,
       p.completed_at as plan_ended_at
  from review r
  join plan p on p.org_id = :org and p.id = r.plan_id
 where r.org_id = :org and r.id = %(review_id)s;

-- name: waiting
-- Count the reviews, runs, failed stages and caps that wait for a person, up to a limit.
select (select count(*)
          from (select
                  from review r
                  join plan p on p.org_id = :org and p.id = r.plan_id
                 where r.org_id = :org
                   and r.decision is null
                   and p.completed_at is null
                 -- The order keeps the planner from reading every open plan instead.
                 order by r.requested_at, r.id
                 limit %(most)s) r) as reviews,
       (select count(*)
          from (select
                  from run r
                 where r.org_id = :org and r.awaiting_since is not null
                 limit %(most)s) r) as runs,
       (select count(*) from :failed_stages) as failed_stages,
       (select count(*)
          from (select from work_cap c
                 where c.org_id = :org and :cap_is_paused
                 limit %(most)s) c) as caps,
       app_now() as now;
