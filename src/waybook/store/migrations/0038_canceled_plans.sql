-- Oldest compatible migration: 0029
--
-- Plans that a person or agent canceled. Null if nobody did. A canceled plan has the status failed.

alter table plan
  add column canceled boolean
    constraint plan_canceled_check check (not canceled or status = 'failed');
create index plan_canceled_idx on plan (org_id, id) where canceled;
