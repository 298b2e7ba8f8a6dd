-- Oldest compatible migration: 0026
--
-- Indexes with which lists of runs by activity and lookups of documents read a limited number of
-- rows. Programs that do not know the column need not write it, because it is generated.

-- Minute of the last activity of a run, as `active_minute` of the table `plan`: the index changes at
-- most once a minute, so that most updates of a run can be made in place.
alter table run
  add column active_minute timestamp not null
    generated always as (date_bin('1 minute', updated_at at time zone 'UTC',
                                  timestamp '2000-01-01')) stored;
create index run_open_activity on run (org_id, active_minute)
  where completed_at is null and canceled_at is null;
create index run_ended_activity on run (org_id, active_minute)
  where completed_at is not null or canceled_at is not null;

-- On a table without statistics, a lookup of a document by its id used this index, because it began
-- with the org, and read all documents of the org.
drop index document_place;
create unique index document_place on document
  (run_id, org_id, stage_slug, document_key, step_key, model, lineage, coalesce(reviewer, ''),
   version);
