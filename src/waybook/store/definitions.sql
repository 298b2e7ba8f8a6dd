-- name: definition
-- A version of a definition; the latest if none is named.
select d.version, d.name, d.body, encode(d.body_hash, 'hex'), d.created_at, d.created_by
  from dag_definition d
 where d.slug = %(slug)s and (%(version)s::integer is null or d.version = %(version)s::integer)
 order by d.version desc
 limit 1;

-- name: lock_definition
-- Whoever adds a version waits here for whoever else does.
select pg_advisory_xact_lock(hashtextextended(app_org()::text || '/' || %(slug)s, 0));

-- name: definitions
-- The latest version of each definition.
select distinct on (d.slug) d.slug, d.version, d.name, d.body, encode(d.body_hash, 'hex'),
       d.created_at, d.created_by
  from dag_definition d
 order by d.slug, d.version desc;

-- name: definitions_named
-- Several versions of definitions at once.
select d.slug, d.version, d.body
  from dag_definition d
  join json_to_recordset(%(named)s::json) as n (slug text, version integer)
    on d.slug = n.slug and d.version = n.version;

-- name: versions
-- The versions of a definition, latest first.
select d.version, d.created_at, d.created_by
  from dag_definition d
 where d.slug = %(slug)s
 order by d.version desc
 limit %(most)s;
