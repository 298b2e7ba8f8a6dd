-- name: name_org_by_slug
-- Set the transaction's org to the org with this slug.
select set_config('app.org_id', org_id::text, true) from org where slug = %(slug)s;

-- name: close_directory
-- Hide the rows of all other orgs for the rest of the transaction.
select set_config('app.sweep', 'off', true);

-- name: member
-- Return the transaction's org, and its user with this issuer and subject.
select o.org_id, app_now() as now, u.id::text as user_id, u.name, u.scopes,
       u.disabled_at is not null as is_disabled
  from org o
  left join org_user u on u.issuer = %(issuer)s and u.subject = %(subject)s
 where o.org_id = app_org();

-- name: org_of_slug
select org_id from org where slug = %(slug)s;

-- name: member_of_org
-- As `member`, but only in the given org.
select o.org_id, app_now() as now, u.id::text as user_id, u.name, u.scopes,
       u.disabled_at is not null as is_disabled
  from org o
  left join org_user u on u.org_id = :org and u.issuer = %(issuer)s and u.subject = %(subject)s
 where o.org_id = :org;
