-- Minimal implementation of claiming and submitting a step with the guarantees of Waybook: row-level
-- security per org, a lock on the plan, a fencing attempt number, a hash-chained audit entry per
-- call, and a stored answer per idempotency key.

create schema peer;

create table peer.plan (
  org_id uuid not null, id int not null, status text not null, seq int not null default 0,
  hash bytea not null default '', primary key (org_id, id)) with (fillfactor = 85);

create table peer.step (
  org_id uuid not null, plan_id int not null, n int not null, status text not null,
  attempt int not null default 1, held_by text, since timestamptz, instructions text not null,
  result jsonb, primary key (org_id, plan_id, n)) with (fillfactor = 85);

create table peer.audit (
  org_id uuid not null, plan_id int not null, seq int not null, at timestamptz not null,
  event text not null, details jsonb not null, hash bytea not null,
  primary key (org_id, plan_id, seq));

create table peer.answer (
  org_id uuid not null, key text not null, arguments_hash bytea not null, answer jsonb not null,
  primary key (org_id, key));

alter table peer.plan enable row level security;
alter table peer.step enable row level security;
alter table peer.audit enable row level security;
alter table peer.answer enable row level security;
create policy tenant on peer.plan using (org_id = app_org());
create policy tenant on peer.step using (org_id = app_org());
create policy tenant on peer.audit using (org_id = app_org());
create policy tenant on peer.answer using (org_id = app_org());
grant usage on schema peer to waybook_app;
grant select, insert, update on all tables in schema peer to waybook_app;

create function peer.take(o uuid, p int, who text, k text) returns jsonb language plpgsql as $$
declare
  plan record; s record; stored record; a jsonb; d jsonb; h bytea;
begin
  perform set_config('app.org_id', o::text, true);
  select * into plan from peer.plan where id = p for update;
  select * into stored from peer.answer where key = k;
  if found then
    if stored.arguments_hash <> sha256(convert_to(p::text || who, 'utf8')) then raise 'conflict'; end if;
    return stored.answer;
  end if;
  select n, attempt, instructions into s
    from peer.step where plan_id = p and status = 'pending' order by n limit 1;
  if not found then return null; end if;
  update peer.step set status = 'in_progress', held_by = who, since = clock_timestamp()
   where plan_id = p and n = s.n;
  d := jsonb_build_object('step', s.n, 'attempt', s.attempt, 'by', who);
  h := sha256(plan.hash || convert_to(d::text, 'utf8'));
  update peer.plan set seq = seq + 1, status = 'executing', hash = h where id = p;
  insert into peer.audit values (o, p, plan.seq + 1, clock_timestamp(), 'step_started', d, h);
  a := jsonb_build_object('step', s.n, 'attempt', s.attempt, 'instructions', s.instructions);
  insert into peer.answer values (o, k, sha256(convert_to(p::text || who, 'utf8')), a);
  return a;
end $$;

create function peer.submit(o uuid, p int, done int, held int, r jsonb, who text, k text)
  returns jsonb language plpgsql as $$
declare
  plan record; s record; stored record; a jsonb; d jsonb; h bytea; remaining int;
begin
  perform set_config('app.org_id', o::text, true);
  select * into plan from peer.plan where id = p for update;
  select * into stored from peer.answer where key = k;
  if found then
    if stored.arguments_hash <> sha256(convert_to(done::text || r::text, 'utf8')) then raise 'conflict'; end if;
    return stored.answer;
  end if;
  select status, attempt into s from peer.step where plan_id = p and n = done;
  if s.attempt <> held or s.status <> 'in_progress' then raise 'stale'; end if;
  update peer.step set status = 'completed', result = r where plan_id = p and n = done;
  select count(*) into remaining from peer.step where plan_id = p and status <> 'completed';
  d := jsonb_build_object('step', done, 'result', r, 'by', who);
  h := sha256(plan.hash || convert_to(d::text, 'utf8'));
  update peer.plan
     set seq = seq + 1, hash = h,
         status = case when remaining = 0 then 'completed' else 'executing' end
   where id = p;
  insert into peer.audit values (o, p, plan.seq + 1, clock_timestamp(), 'step_completed', d, h);
  a := jsonb_build_object('step', done, 'open', remaining);
  insert into peer.answer values (o, k, sha256(convert_to(done::text || r::text, 'utf8')), a);
  return a;
end $$;

-- Submit a step and claim the next one, with one change of the plan and one stored answer.
create function peer.submit_and_take(
  o uuid, p int, done int, held int, r jsonb, who text, k text)
  returns jsonb language plpgsql as $$
declare
  plan record; s record; t record; stored record; a jsonb; d jsonb; h bytea; remaining int;
begin
  perform set_config('app.org_id', o::text, true);
  select * into plan from peer.plan where id = p for update;
  select * into stored from peer.answer where key = k;
  if found then
    if stored.arguments_hash <> sha256(convert_to(done::text || r::text, 'utf8')) then raise 'conflict'; end if;
    return stored.answer;
  end if;
  select status, attempt into s from peer.step where plan_id = p and n = done;
  if s.attempt <> held or s.status <> 'in_progress' then raise 'stale'; end if;
  update peer.step set status = 'completed', result = r where plan_id = p and n = done;
  select count(*) into remaining from peer.step where plan_id = p and status <> 'completed';
  d := jsonb_build_object('step', done, 'result', r, 'by', who);
  h := sha256(plan.hash || convert_to(d::text, 'utf8'));
  insert into peer.audit values (o, p, plan.seq + 1, clock_timestamp(), 'step_completed', d, h);
  a := jsonb_build_object('open', remaining);
  select n, attempt, instructions into t
    from peer.step where plan_id = p and status = 'pending' order by n limit 1;
  if found then
    update peer.step set status = 'in_progress', held_by = who, since = clock_timestamp()
     where plan_id = p and n = t.n;
    d := jsonb_build_object('step', t.n, 'attempt', t.attempt, 'by', who);
    h := sha256(h || convert_to(d::text, 'utf8'));
    insert into peer.audit values (o, p, plan.seq + 2, clock_timestamp(), 'step_started', d, h);
    a := a || jsonb_build_object('step', t.n, 'attempt', t.attempt, 'instructions', t.instructions);
  end if;
  update peer.plan
     set seq = seq + case when t.n is null then 1 else 2 end, hash = h,
         status = case when remaining = 0 then 'completed' else 'executing' end
   where id = p;
  insert into peer.answer values (o, k, sha256(convert_to(done::text || r::text, 'utf8')), a);
  return a;
end $$;
