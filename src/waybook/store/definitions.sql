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
