-- Run by the owner, in one transaction of one org; the braces are filled as in erasure.sql.

-- name: naming_columns
-- Every column of texts, of every such table but the audit, with the name of its table.
select c.relname as table, a.attname as column
  from pg_attribute a
  join pg_class c on c.oid = a.attrelid
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
   and not c.relispartition
   and c.relname not in ('erasure', 'tombstone', 'audit_entry', 'org')
   and a.attnum > 0 and not a.attisdropped and a.atttypid = 'text'::regtype
   and exists (select from pg_attribute o where o.attrelid = c.oid and o.attname = 'org_id')
 order by 1, 2;

-- name: json_of_ours
-- The columns of JSON that hold what we said, not what somebody stored.
select c.relname as table, a.attname as column
  from pg_attribute a
  join pg_class c on c.oid = a.attrelid
 where c.relnamespace = 'public'::regnamespace
   and (c.relname, a.attname) in (('idempotency_answer', 'answer'), ('webhook_delivery', 'data'));

-- name: chains_with_name
-- The chains in which somebody is named, or may be: who acts, and the end of a text in the details.
-- That of the org itself is looked at in any case.
select subject, subject_id::text
  from audit_entry
 where org_id = %(org_id)s
   and (actor = %(name)s or strpos(details::text, %(told)s) > 0)
   and subject_id <> %(org_id)s
 group by subject, subject_id
 order by subject_id;

-- name: lock_end
-- The last seal of one chain, ours until we are done with it.
select audit_hash from {table}
 where org_id = %(org_id)s and id = %(id)s
   for update;

-- name: move_end
update {table} set audit_hash = %(hash)s where org_id = %(org_id)s and id = %(id)s returning org_id;

-- name: reseal_entry
update audit_entry
   set actor = %(actor)s, details = %(details)s, hash = %(hash)s
 where org_id = %(org_id)s
   and subject_id = %(subject_id)s and seq = %(seq)s and at = %(at)s;

-- name: rename
-- In a column that names somebody: alone, or behind one of the words that may stand before it.
update {table} t
   set {column} = w.word || %(pseudonym)s || substr(t.{column}, length(w.word || %(name)s) + 1)
  from unnest(%(words)s::text[]) w (word)
 where t.org_id = %(org_id)s
   and (t.{column} = w.word || %(name)s
        or (w.word = %(reason)s and starts_with(t.{column}, w.word || %(name)s || ': ')))
returning t.org_id;

-- name: answers_with_name
select ctid::text as place, {column}::text as text from {table}
 where org_id = %(org_id)s and strpos({column}::text, %(told)s) > 0
   for update;

-- name: rename_answer
update {table} set {column} = %(value)s
 where org_id = %(org_id)s and ctid = %(place)s::tid
returning org_id;

-- name: user_tables
-- The tables of what belongs to a user, with the users' own, and the column that says whose.
select c.relname as table, a.attname as column
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
   and (a.attname = 'user_id' or (c.relname = 'org_user' and a.attname = 'id'));

-- name: user_ids
select id from org_user where org_id = %(org_id)s and name = %(name)s;

-- name: org_end
select audit_hash from org where org_id = %(org_id)s;

-- name: move_org_end
update org set audit_seq = %(seq)s, audit_hash = %(hash)s where org_id = %(org_id)s
returning org_id;

-- name: add_entry
insert into audit_entry (org_id, subject_id, subject, seq, at, event, actor, channel, session,
                         details, hash)
values (%(org_id)s, %(subject_id)s, %(subject)s, %(seq)s, %(at)s, %(event)s, %(actor)s, %(channel)s,
        %(session)s, %(details)s, %(hash)s);

-- name: members_of
-- The users, by their ids, and their tokens: what goes with them.
select id::text from org_user where org_id = %(org_id)s and id = any (%(ids)s)
 union all
select id::text from api_token where org_id = %(org_id)s and user_id = any (%(ids)s);

-- name: delete_users_rows
delete from {table} where org_id = %(org_id)s and {column} = any (%(ids)s) returning org_id;
