-- Links with which a person gives feedback on a stage of a run without sign-in, as review links
-- decide a review of a plan. A feedback link belongs to a run and not to a plan.

alter table access_link
  alter column plan_id drop not null,
  add column run_id uuid,
  add column stage text,
  drop constraint access_link_kind_check,
  add constraint access_link_kind_check check (kind in ('review', 'snapshot', 'feedback')),
  add foreign key (org_id, run_id) references run (org_id, id),
  add check ((kind = 'feedback') = (run_id is not null)),
  add check ((run_id is null) = (stage is null)),
  add check ((run_id is null) = (plan_id is not null));
create index access_link_run on access_link (org_id, run_id) where run_id is not null;
