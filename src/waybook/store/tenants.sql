-- name: add_org
insert into org (org_id, slug) values (%(org_id)s, %(slug)s) on conflict (org_id) do nothing;

-- name: orgs
-- The directory, for whoever runs the server.
select org_id::text, slug, name, review_policy, created_at from org order by slug;

-- name: review_policy
select review_policy from org where org_id = app_org();

-- name: set_review_policy
update org set review_policy = %(policy)s where org_id = app_org();
