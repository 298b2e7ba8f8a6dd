-- Oldest compatible migration: 0029
--
-- Words of the names of runs, with which a search by name reads a limited number of rows, as
-- `plan_word` for plans. A name never changes. Programs that do not know the table write no words;
-- their runs are found by name only while they are among the newest.

create table run_word (
  org_id  uuid             not null default app_org(),
  word    text collate "C" not null,
  run_id  uuid             not null,
  primary key (org_id, word, run_id)
);

alter table run_word enable row level security;
alter table run_word force row level security;
create policy tenant on run_word using (org_id = app_org()) with check (org_id = app_org());
grant select, insert on run_word to waybook_app;

-- Row-level security hides the rows of an org from everyone outside the org, also from the owner, so
-- the rows of each org are filled in within that org.
do $$
declare
  one_org uuid;
begin
  set local app.sweep = 'on';
  for one_org in select org_id from org loop
    perform set_config('app.org_id', one_org::text, true);
    insert into run_word (org_id, word, run_id)
    select r.org_id, w.word, r.id
      from run r
     cross join lateral unnest(app_name_parts(r.name)) as w (word)
     where r.org_id = one_org;
  end loop;
  perform set_config('app.org_id', '', true);
  set local app.sweep = 'off';
end
$$;
