-- name: rows_by_org
-- How many rows a change touched, by org; the brace is filled with a statement that returns org_id.
with changed as ({statement})
select org_id, count(*) from changed group by org_id;
