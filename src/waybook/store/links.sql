-- name: name_org_by_link
-- Set the transaction's org to the org of the link; if there is no such link, leave it unset.
select set_config('app.org_id', l.org_id::text, true)
  from access_link l
 where l.hash = app_secret_hash();

-- name: link_by_hash
-- Return the link with the hash of the transaction, and the scopes of its user. The transaction's
-- org has already been set from the same link.
select l.org_id, l.id::text, l.kind, l.plan_id::text, l.review_id::text, l.run_id::text,
       l.stage, l.seq, l.for_user, l.user_id is not null as has_account, u.name as user_name,
       u.scopes as user_scopes, l.created_at, l.expires_at, l.expires_at <= app_now() as is_expired,
       l.revoked_at is not null as is_revoked
  from access_link l
  left join org_user u on u.id = l.user_id and u.org_id = l.org_id and u.disabled_at is null
 where l.hash = app_secret_hash() and l.org_id = app_org();

-- name: insert_action_link
-- Insert a link for a review or a stage. Where users have accounts, there is no link without an
-- active user.
insert into access_link (id, kind, hash, plan_id, review_id, run_id, stage, user_id, for_user,
                         created_at, expires_at)
select %(id)s::uuid, %(kind)s::text, %(hash)s::bytea, %(plan_id)s::uuid, %(review_id)s::uuid,
       %(run_id)s::uuid, %(stage)s::text, u.id, %(for_user)s::text, %(now)s::timestamptz,
       %(expires_at)s::timestamptz
  from (select true) one
  left join org_user u on u.org_id = :org and u.name = %(for_user)s::text
                      and u.disabled_at is null
 where u.id is not null or not %(needs_account)s::boolean
on conflict (org_id, id) do nothing;

-- name: insert_snapshot_link
insert into access_link (id, kind, hash, plan_id, seq, for_user, created_at, expires_at)
values (%(id)s, 'snapshot', %(hash)s, %(plan_id)s, %(seq)s, %(for_user)s, app_now(),
        app_now() + make_interval(days => %(days)s))
returning id::text;

-- name: is_link_usable
select id::text
  from access_link
 where org_id = :org and id = %(id)s and revoked_at is null and expires_at > app_now();

-- name: snapshot_links
-- Return the links to snapshots of a plan that can still be opened, newest first.
select id::text, seq, for_user as created_by, created_at, expires_at
  from access_link
 where org_id = :org and plan_id = %(plan_id)s and kind = 'snapshot'
   and revoked_at is null and expires_at > app_now()
 order by created_at desc, id desc
 limit %(most)s;

-- name: revoke_snapshot_link
update access_link
   set revoked_at = app_statement_time(), revoked_by = %(by)s
 where org_id = :org and id = %(id)s and plan_id = %(plan_id)s and kind = 'snapshot'
   and revoked_at is null
returning id::text;

-- name: revoke_action_links
-- Revoke the links that decide for a plan or a run, or for all plans and runs.
update access_link
   set revoked_at = app_statement_time(), revoked_by = %(by)s
 where org_id = :org
   and kind <> 'snapshot' and revoked_at is null and expires_at > app_statement_time()
   and (%(subject_id)s::uuid is null
        or plan_id = %(subject_id)s::uuid
        or run_id = %(subject_id)s::uuid)
returning id::text;
