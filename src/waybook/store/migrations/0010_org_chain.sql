-- An org has a chain in the audit as a plan has, which tells of its users and tokens. It begins when
-- the first of them comes.

alter table org
  add column audit_seq integer not null default 0,
  add column audit_hash bytea;

grant update (audit_seq, audit_hash) on org to waybook_app;

-- What a token is, it stays: it can be used and revoked.
revoke update on api_token from waybook_app;
grant update (last_used_at, revoked_at, revoked_by) on api_token to waybook_app;
