-- name: insert_user
insert into org_user (id, name, email, issuer, subject, scopes, created_at, created_by)
values (%(id)s, %(name)s, %(email)s, %(issuer)s, %(subject)s, %(scopes)s::text[], %(created_at)s,
        %(created_by)s);

-- name: enable_user
update org_user set disabled_at = %(disabled_at)s where org_id = :org and id = %(id)s;

-- name: set_user_scopes
update org_user set scopes = %(scopes)s::text[] where org_id = :org and id = %(id)s;

-- name: insert_token
insert into api_token (id, user_id, label, hash, scopes, created_at, created_by, expires_at)
values (%(id)s, %(user_id)s, %(label)s, decode(%(hash)s, 'hex'), %(scopes)s::text[],
        %(created_at)s, %(created_by)s, %(expires_at)s);

-- name: revoke_token
with written as (
  update api_token
     set revoked_at = %(revoked_at)s, revoked_by = %(revoked_by)s
   where org_id = :org and id = %(id)s and revoked_at is null
  returning 1)
select 1 / count(*) from written;

-- name: update_org
-- A division by zero aborts the transaction if the audit chain has advanced although the org is
-- locked.
with written as (
  update org
     set name = %(name)s,
         review_policy = %(review_policy)s,
         audit_seq = %(audit_seq)s,
         audit_hash = %(audit_hash)s
   where org_id = :org and audit_seq = %(old_seq)s
  returning 1)
select 1 / count(*) from written;
