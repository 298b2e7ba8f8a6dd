-- name: latest
-- Return the latest skill execution that this session of the user started and has not completed.
select id::text
  from skill_execution
 where org_id = :org and session = %(session)s and started_by = %(user)s and status = 'started'
 order by started_at desc, id desc
 limit 1;

-- name: lock_execution
select id::text, skill, status, session, audit_seq, audit_hash, started_at
  from skill_execution
 where org_id = :org and id = %(id)s
   for update;

-- name: stored_execution
-- Return all fields of a skill execution that its audit covers.
select json_build_object(
         'skill', skill, 'session', session, 'status', status,
         'output_media_type', output_media_type,
         'formatting_instructions', formatting_instructions,
         'started_at', started_at, 'started_by', started_by,
         'completed_at', completed_at, 'outcome', outcome) as fields
  from skill_execution
 where org_id = :org and id = %(id)s;
