-- name: name_org_by_slug
-- From here on the transaction is of this org; of none, if there is no such org.
select set_config('app.org_id', org_id::text, true) from org where slug = %(slug)s;

-- name: close_directory
-- And sees no other org any more.
select set_config('app.sweep', 'off', true);

-- name: member
-- The org that was named, and its user of this sign-in, if there is one.
select o.org_id, app_now(), u.id::text, u.name, u.scopes, u.disabled_at is not null
  from org o
  left join org_user u on u.issuer = %(issuer)s and u.subject = %(subject)s
 where o.org_id = app_org();
