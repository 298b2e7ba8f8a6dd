-- name: plan
select id::text, short_key from plan
 where org_id = app_org() and short_key = any (%(keys)s::bigint[]);

-- name: step
select id::text, short_key from plan_step
 where org_id = app_org() and short_key = any (%(keys)s::bigint[]);

-- name: run
select id::text, short_key from run
 where org_id = app_org() and short_key = any (%(keys)s::bigint[]);

-- name: job
select id::text, short_key from job
 where org_id = app_org() and short_key = any (%(keys)s::bigint[]);

-- name: review
select id::text, short_key from review
 where org_id = app_org() and short_key = any (%(keys)s::bigint[]);
