-- name: add_org
insert into org (org_id, slug) values (%(org_id)s, %(slug)s) on conflict (org_id) do nothing;
