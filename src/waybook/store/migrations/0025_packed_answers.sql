-- Compressed answers. A stored answer is either JSON, as before, or packed by the server; existing
-- rows keep their JSON. The constraint is not checked for them, so that the migration does not read
-- the table.

alter table idempotency_answer
  alter column answer drop not null,
  add column packed bytea,
  add constraint idempotency_answer_form check ((answer is null) <> (packed is null)) not valid;
