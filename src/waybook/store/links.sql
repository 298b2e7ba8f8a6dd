-- name: name_org_by_link
-- Set the transaction's org to the link's org.
select set_config('app.org_id', l.org_id::text, true)
  from access_link l
 where l.hash = app_secret_hash();

-- name: name_org_by_link_of_org
-- Set the transaction's org if the link belongs to the org that its secret names.
select set_config('app.org_id', l.org_id::text, true)
  from access_link l
 where l.org_id = :org and l.hash = app_secret_hash();

-- name: link_by_hash
-- Return the link whose secret has the hash that is set in this transaction.
:link_with_hash
   and l.org_id = app_org();

-- name: link_by_hash_of_org
-- As `link_by_hash`, but only in the org that the link names.
:link_with_hash
   and l.org_id = :org;

-- name: insert_action_link
-- Insert a link for a review or a stage if the user has an active account.
insert into access_link (org_id, id, kind, hash, plan_id, review_id, run_id, stage, user_id, for_user,
                         created_at, expires_at)
select u.org_id, %(id)s::uuid, %(kind)s::text, %(hash)s::bytea, %(plan_id)s::text, %(review_id)s::text,
       %(run_id)s::text, %(stage)s::text, u.id, %(for_user)s::text, %(now)s::timestamptz,
       %(expires_at)s::timestamptz
  from org_user u
 where u.org_id = :org and u.name = %(for_user)s::text and u.disabled_at is null
on conflict (org_id, id) do nothing;

-- name: insert_link_without_account
-- Insert a link for a review or a stage, unless `insert_action_link` has already inserted the link.
insert into access_link (id, kind, hash, plan_id, review_id, run_id, stage, for_user, created_at,
                         expires_at)
values (%(id)s, %(kind)s, %(hash)s, %(plan_id)s, %(review_id)s, %(run_id)s, %(stage)s, %(for_user)s,
        %(now)s, %(expires_at)s)
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
-- Revoke the review and feedback links of one plan or run, or of the whole org.
update access_link
   set revoked_at = app_statement_time(), revoked_by = %(by)s
 where org_id = :org
   and kind <> 'snapshot' and revoked_at is null and expires_at > app_statement_time()
   and (%(subject_id)s::text is null
        or plan_id = %(subject_id)s::text
        or run_id = %(subject_id)s::text)
returning id::text;
