-- name: documents_of
-- Return the latest version, now or at a given time, of each document with one of these stages and
-- keys (the slots). Texts are returned in the order of the slots, up to a total length. `offset 0`
-- makes PostgreSQL look up each slot by key, because a join might be planned as a scan of all
-- documents of the run.
select :row_of_input
  from (select distinct on (d.stage_slug, d.document_key, d.step_key, d.model, d.lineage,
                            coalesce(d.reviewer, '')) w.number, d.id as document_id,
               :row_of_document
          from json_to_recordset(%(slots)s::json) as w (number integer, stage text,
                                                        document_key text)
         cross join lateral (select d.*
                               from document d
                              where d.org_id = :org
                                and d.run_id = %(run_id)s
                                and d.stage_slug = w.stage
                                and d.document_key = w.document_key
                                and (%(as_of)s::timestamptz is null
                                     or d.created_at <= %(as_of)s::timestamptz)
                             offset 0) d
         order by d.stage_slug, d.document_key, d.step_key, d.model, d.lineage,
                  coalesce(d.reviewer, ''), d.version desc, w.number) n
 order by n.stage, n.document_key, n.step_key, n.model, n.lineage, n.reviewer nulls first;

-- name: documents_of_lineage
-- As `documents_of`, for documents with one of these stages, keys and lineages. The lineage is
-- compared in the index, so that other lineages are not read.
select :row_of_input
  from (select distinct on (d.stage_slug, d.document_key, d.step_key, d.model, d.lineage,
                            coalesce(d.reviewer, '')) w.number, d.id as document_id,
               :row_of_document
          from json_to_recordset(%(slots)s::json) as w (number integer, stage text,
                                                        document_key text, lineage text)
         cross join lateral (select d.*
                               from document d
                              where d.org_id = :org
                                and d.run_id = %(run_id)s
                                and d.stage_slug = w.stage
                                and d.document_key = w.document_key
                                and d.lineage = w.lineage
                                and (%(as_of)s::timestamptz is null
                                     or d.created_at <= %(as_of)s::timestamptz)
                             offset 0) d
         order by d.stage_slug, d.document_key, d.step_key, d.model, d.lineage,
                  coalesce(d.reviewer, ''), d.version desc, w.number) n
 order by n.stage, n.document_key, n.step_key, n.model, n.lineage, n.reviewer nulls first;
