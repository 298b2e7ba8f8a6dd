-- Cancelled runs. A cancelled run keeps all its rows, also those of its open jobs: the run itself
-- says that they are no longer handed out.

alter table run
  add column cancelled_at  timestamptz,
  add column cancelled_by  text,
  add column cancel_reason text,
  add constraint run_cancellation_whole check (
    (cancelled_at is null) = (cancelled_by is null)
    and (cancelled_at is null) = (cancel_reason is null)),
  add constraint run_ends_once check (cancelled_at is null or completed_at is null);
