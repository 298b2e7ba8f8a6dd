-- Each query looks up one key. On PostgreSQL 15, a condition on a list of keys would read all rows
-- of the org.

-- name: plan
select r.id::text, r.short_key
  from unnest(%(keys)s::bigint[]) k (key)
 cross join lateral (select id, short_key from plan
                      where org_id = :org and short_key = k.key
                      limit 1) r;

-- name: step
select r.id::text, r.short_key, r.plan_id::text
  from unnest(%(keys)s::bigint[]) k (key)
 cross join lateral (select id, short_key, plan_id from plan_step
                      where org_id = :org and short_key = k.key
                      limit 1) r;

-- name: run
select r.id::text, r.short_key
  from unnest(%(keys)s::bigint[]) k (key)
 cross join lateral (select id, short_key from run
                      where org_id = :org and short_key = k.key
                      limit 1) r;

-- name: job
select r.id::text, r.short_key
  from unnest(%(keys)s::bigint[]) k (key)
 cross join lateral (select id, short_key from job
                      where org_id = :org and short_key = k.key
                      limit 1) r;

-- name: review
select r.id::text, r.short_key
  from unnest(%(keys)s::bigint[]) k (key)
 cross join lateral (select id, short_key from review
                      where org_id = :org and short_key = k.key
                      limit 1) r;
