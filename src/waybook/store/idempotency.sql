-- name: stored_answer
select encode(arguments_hash, 'hex'), is_error, answer
  from idempotency_answer
 where tool = %(tool)s and key = %(key)s;
