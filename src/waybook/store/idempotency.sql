-- name: stored_answer
select arguments_hash, is_error, answer
  from idempotency_answer
 where tool = %(tool)s and key = %(key)s;
