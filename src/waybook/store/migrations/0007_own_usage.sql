-- What the server's own model took, for extract_data: it belongs to an org, to no plan and no run.

alter table usage
  drop constraint usage_check2,
  add constraint usage_of_one check (plan_id is null or run_id is null);
