-- Canceled runs, and copies of plans.
--
-- A canceled run keeps all its rows, also those of its open jobs: the run itself says that they
-- are no longer handed out.

alter table run
  add column canceled_at  timestamptz,
  add column canceled_by  text,
  add column cancel_reason text,
  add constraint run_cancellation_whole check (
    (canceled_at is null) = (canceled_by is null)
    and (canceled_at is null) = (cancel_reason is null)),
  add constraint run_ends_once check (canceled_at is null or completed_at is null);

-- The plan that a plan was copied from, as of an audit entry, and the step that a result was
-- carried over from. The originals may be deleted later, so there are no foreign keys.

alter table plan_brief
  add column copied_from uuid,
  add column copied_seq  integer check (copied_seq >= 1),
  add constraint plan_brief_origin_whole check ((copied_from is null) = (copied_seq is null));

alter table plan_step
  add column copied_from uuid;

-- The same for runs, and for the documents of the stages that were carried over.

alter table run
  add column copied_from uuid,
  add column copied_seq  integer check (copied_seq >= 1),
  add constraint run_origin_whole check ((copied_from is null) = (copied_seq is null));

alter table document
  add column copied_from uuid;
