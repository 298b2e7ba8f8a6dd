-- Migration 0031 on a cluster. The function `set_config` does not reach the nodes, which then show
-- the fill no rows; `set local` does.

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

do $$
declare
  one_org uuid;
begin
  set local app.sweep = 'on';
  for one_org in select org_id from org loop
    execute format('set local app.org_id = %L', one_org);
    insert into run_word (org_id, word, run_id)
    select r.org_id, w.word, r.id
      from run r
     cross join lateral unnest(app_name_parts(r.name)) as w (word)
     where r.org_id = one_org;
  end loop;
  set local app.org_id = '';
  set local app.sweep = 'off';
end
$$;
