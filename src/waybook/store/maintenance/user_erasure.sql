-- The database owner runs these queries in one transaction for one org. The driver fills in the
-- braces, as in erasure.sql.

-- name: naming_columns
-- Return every text column of the tables with rows of orgs, except ids. The tables of orgs, the
-- audit and erasures are left out.
select c.relname as table, a.attname as column
  from pg_attribute a
  join pg_class c on c.oid = a.attrelid
 where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
   and not c.relispartition
   and c.relname not in ('erasure', 'tombstone', 'audit_entry', 'org')
   and a.attnum > 0 and not a.attisdropped and a.atttypid = 'text'::regtype
   and a.attname !~ '^id$|_id$|^copied_from$'
   and exists (select from pg_attribute o where o.attrelid = c.oid and o.attname = 'org_id')
 order by 1, 2;

-- name: json_of_ours
-- Return the JSON columns whose content the server wrote itself.
select c.relname as table, a.attname as column
  from pg_attribute a
  join pg_class c on c.oid = a.attrelid
 where c.relnamespace = 'public'::regnamespace
   and (c.relname, a.attname) in (('idempotency_answer', 'answer'), ('webhook_delivery', 'data'));

-- name: chains_with_name
-- Return the audit chains that may contain a user's name. The org's own chain is left out, because
-- it is always checked.
select subject, subject_id::text
  from audit_entry
 where org_id = %(org_id)s
   and (actor = %(name)s or strpos(details::text, %(name_json)s) > 0)
   and subject_id <> %(org_id)s::text
 group by subject, subject_id
 order by subject_id;

-- name: lock_end
-- Lock the subject of an audit chain, and return the chain's last seal.
select audit_hash from {table}
 where org_id = %(org_id)s and id = %(id)s
   for update;

-- name: move_end
update {table} set audit_hash = %(hash)s where org_id = %(org_id)s and id = %(id)s returning org_id;

-- name: reseal_entry
update audit_entry
   set actor = %(actor)s, details = %(details)s, hash = %(hash)s, brief = %(brief)s
 where org_id = %(org_id)s
   and subject_id = %(subject_id)s and seq = %(seq)s and at = %(at)s;

-- name: rename
-- Replace a user's name by the pseudonym in a column of names. The name may follow a known prefix,
-- such as the start of a rejection reason.
update {table} t
   set {column} = w.word || %(pseudonym)s || substr(t.{column}, length(w.word || %(name)s) + 1)
  from unnest(%(words)s::text[]) w (word)
 where t.org_id = %(org_id)s
   and (t.{column} = w.word || %(name)s
        or (w.word = %(reason)s and starts_with(t.{column}, w.word || %(name)s || ': ')))
returning t.org_id;

-- name: answers_with_name
select ctid::text as place, {column}::text as text from {table}
 where org_id = %(org_id)s and strpos({column}::text, %(name_json)s) > 0
   for update;

-- name: rename_answer
update {table} set {column} = %(value)s
 where org_id = %(org_id)s and ctid = %(place)s::tid
returning org_id;

-- name: user_tables
-- Return the tables with rows that belong to a user, and the column with the user's id.
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
-- Return the ids of these users and of their tokens, all of which will be deleted.
select id::text from org_user where org_id = %(org_id)s and id = any (%(ids)s)
 union all
select id::text from api_token where org_id = %(org_id)s and user_id = any (%(ids)s);

-- name: delete_agents
delete from {table} where org_id = %(org_id)s and name = %(name)s returning org_id;

-- name: delete_users_rows
delete from {table} where org_id = %(org_id)s and {column} = any (%(ids)s) returning org_id;
