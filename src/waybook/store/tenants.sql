-- name: add_org
begin;
set local app.org_id = %(org_id)s;
insert into org (org_id, slug) values (%(org_id)s, %(slug)s) on conflict (org_id) do nothing;
commit;
