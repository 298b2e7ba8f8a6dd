-- name: quarantine_passages
-- Passages of this org are set aside; those deleted meanwhile, or of another org, are passed over.
insert into passage_quarantine (subject_id, part, model, backend, quarantined_at)
select p.subject_id, p.part, %(model)s, %(backend)s, app_now()
  from unnest(%(subjects)s::uuid[], %(parts)s::integer[]) as n (subject_id, part)
  join passage p on p.subject_id = n.subject_id and p.part = n.part
    on conflict (org_id, subject_id, part, model, backend)
    do update set quarantined_at = excluded.quarantined_at;

-- name: quarantined_passages
-- How many passages are set aside, and since when.
select count(*), min(q.quarantined_at)
  from passage_quarantine q
 where q.quarantined_at > app_now() - interval '1 day';
