-- name: stage_documents
-- Return the latest rendered version of each document of a stage, with the beginning of its text.
select n.*, count(*) over () as total
  from (select distinct on (d.document_key, d.step_key, d.model, d.lineage,
                            coalesce(d.reviewer, ''))
               d.run_id::text, h.id::text as resource_id, d.document_key, d.step_key, d.model,
               d.lineage, left(h.markdown, %(longest)s) as beginning
          from rendered_document h
          join document d on d.org_id = :org and d.id = h.document_id
         where h.org_id = :org
           and h.run_id = %(run_id)s
           and d.stage_slug = %(stage)s
         order by d.document_key, d.step_key, d.model, d.lineage, coalesce(d.reviewer, ''),
                  d.version desc) n
 order by n.step_key, n.document_key, n.model, n.lineage
 limit %(most)s;
