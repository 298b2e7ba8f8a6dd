-- name: views
select v.name, v.query
  from saved_view v
 where v.org_id = :org and v.user_name = %(user_name)s and v.page = %(page)s
 order by lower(v.name), v.name
 limit %(most)s;

-- name: insert_view
insert into saved_view (user_name, page, name, query, created_at)
values (%(user_name)s, %(page)s, %(name)s, %(query)s, app_now());

-- name: delete_excess_view
-- Delete the view that was just inserted if the user now has too many views.
delete from saved_view
 where org_id = :org and user_name = %(user_name)s and page = %(page)s and name = %(name)s
   and (select count(*) from saved_view v
         where v.org_id = :org and v.user_name = %(user_name)s and v.page = %(page)s) > %(most)s
returning name;

-- name: delete_view
delete from saved_view
 where org_id = :org and user_name = %(user_name)s and page = %(page)s and name = %(name)s
returning name;
