-- Oldest compatible migration: 0029
--
-- Fewer bytes per step: packed audit entries.

-- Details of frequent audit entries in a short form; `details` is then an empty object. The function
-- restores the exact text, which the seal covers. Entries without a packed form stay as they are.
-- A program that does not know the packed form cannot verify, replay or show such entries.
alter table audit_entry
  add column packed text,
  add column step_id uuid;

-- Each control character stands for one part of the text, see `store/packed_entries.py`. The parts
-- are restored in the reverse order in which they were replaced. If the details are not empty, they
-- are returned, so that the seal does not match and reveals the change.
create function app_entry_details(details json, packed text, step_id uuid, subject_id uuid,
                                  at timestamptz, actor text, session text) returns text
  language sql stable parallel safe
return case when packed is null or details::text <> '{}' then details::text else
  replace(replace(replace(replace(replace(
  replace(replace(replace(replace(replace(
  replace(replace(replace(replace(replace(packed,
    chr(20), ',"changes":['),
    chr(19), ',"resumed":false'),
    chr(18), '["plan","' || chr(5) || '",{"status":["executing","completed"],"completed_at":["'
             || chr(2) || '"]}]'),
    chr(17), '["plan","' || chr(5) || '",{"status":["planning","executing"]}]'),
    chr(16), '["session",' || chr(4) || ',{"*":[{"seen_at":"' || chr(2) || '"}]}]'),
    chr(15), '],"confidence":['),
    chr(14), '["step","' || chr(1) || '",{"status":["in_progress","completed"],"completed_at":["'
             || chr(2) || '"],"result_summary":['),
    chr(8), '["step","' || chr(1) || '",{"status":["pending","in_progress"],"in_progress_since":["'
            || chr(2) || '"],"held_by":[' || chr(3) || '],"held_session":[' || chr(4) || ']}]'),
    chr(7), ',"attempt":'),
    chr(6), '{"stepId":"' || chr(1) || '","stepOrder":'),
    chr(4), '"' || coalesce(session, '') || '"'),
    chr(3), '"' || actor || '"'),
    chr(2), to_char(at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')),
    chr(5), subject_id::text),
    chr(1), coalesce(step_id::text, ''))
end;
