-- Indexes of an agent's audit entries and usage that serve a condition on the session.
--
-- PostgreSQL does not regard `coalesce` as leakproof. Under row-level security the indexes on
-- `coalesce(session, '')` therefore served only the user, and the entries of all sessions of the user
-- were read. The equivalent `case` is leakproof.

drop index audit_entry_agent;
create index audit_entry_agent
    on audit_entry (org_id, actor, (case when session is null then '' else session end), at);

drop index usage_agent;
create index usage_agent
    on usage (org_id, by, (case when session is null then '' else session end), at);
