-- name: documents_of
-- The latest version of each document with one of these keys.
select distinct on (d.stage_slug, d.document_key, d.step_key, d.model, d.lineage,
                    coalesce(d.reviewer, ''))
       d.id::text, d.stage_slug, d.step_key, d.document_key, d.model, d.lineage, d.reviewer,
       length(d.content), (select j.held_by from job j where j.id = d.job_id), d.created_at
  from document d
 where d.run_id = %(run_id)s
   and d.document_key in (select json_array_elements_text(%(keys)s::json))
 order by d.stage_slug, d.document_key, d.step_key, d.model, d.lineage, coalesce(d.reviewer, ''),
          d.version desc;

-- name: contents
-- The beginnings of these documents.
select d.id::text, left(d.content, %(most)s)
  from document d
 where d.id = any (%(ids)s);

-- name: content
-- A piece of one document of a run.
select d.document_key, d.model, d.version, length(d.content),
       substr(d.content, %(start)s + 1, %(most)s),
       (select j.held_by from job j where j.id = d.job_id), d.created_at
  from document d
 where d.id = %(document_id)s and d.run_id = %(run_id)s;

-- name: document_job
-- The job that made the latest version of a document, and that version.
select n.job_id::text, n.version, n.id::text
  from document d
  join document n on n.run_id = d.run_id and n.stage_slug = d.stage_slug
                 and n.document_key = d.document_key and n.step_key = d.step_key
                 and n.model = d.model and n.lineage = d.lineage
                 and coalesce(n.reviewer, '') = coalesce(d.reviewer, '')
 where d.id = %(document_id)s and d.run_id = %(run_id)s
 order by n.version desc
 limit 1;

-- name: run_of_document
select run_id::text from document where id = %(document_id)s;

-- name: available
-- The latest rendered version of each document of a run.
select distinct on (d.stage_slug, d.document_key, d.step_key, d.model, d.lineage,
                    coalesce(d.reviewer, ''))
       d.stage_slug, d.document_key, d.model, h.id::text
  from rendered_document h
  join document d on d.id = h.document_id
 where h.run_id = %(run_id)s
 order by d.stage_slug, d.document_key, d.step_key, d.model, d.lineage, coalesce(d.reviewer, ''),
          d.version desc;

-- name: readable
-- The same, with what there is to know of each.
select distinct on (d.stage_slug, d.document_key, d.step_key, d.model, d.lineage,
                    coalesce(d.reviewer, ''))
       h.id::text, d.stage_slug, d.step_key, d.document_key, d.model, d.lineage, d.reviewer,
       d.version, h.created_at, length(h.markdown), d.id::text
  from rendered_document h
  join document d on d.id = h.document_id
 where h.run_id = %(run_id)s
 order by d.stage_slug, d.document_key, d.step_key, d.model, d.lineage, coalesce(d.reviewer, ''),
          d.version desc;

-- name: rendered
-- One rendered document.
select d.run_id::text, d.document_key, d.model, d.lineage, d.version, h.created_at, h.markdown,
       h.html
  from rendered_document h
  join document d on d.id = h.document_id
 where h.id = %(resource_id)s;
