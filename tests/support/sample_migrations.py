"""Sample migration of a later version, and a function that replaces the bundled migrations."""

from typing import Final

import pytest

from waybook.store.maintenance import migrate, restore
from waybook.store.maintenance.migrate import Migration, bundled_migrations

NUMBER: Final = bundled_migrations()[-1].number + 1
SAMPLE: Final = Migration(
    NUMBER,
    "sample",
    f"""
-- Oldest compatible migration: {NUMBER - 1:04}
alter table plan add column sample text;
create index plan_sample on plan (org_id, sample) where sample is not null;
create table note (
  org_id   uuid not null default app_org() references org,
  id       uuid not null,
  plan_id  text not null,
  primary key (org_id, id),
  foreign key (org_id, plan_id) references plan (org_id, id)
);
create index note_plan on note (org_id, plan_id);
alter table note enable row level security;
alter table note force row level security;
create policy tenant on note using (org_id = app_org()) with check (org_id = app_org());
grant select, insert on note to waybook_app;
""",
)


def bundle(monkeypatch: pytest.MonkeyPatch, *migrations: Migration) -> None:
    """Replace the bundled migrations by these."""
    for module in (migrate, restore):
        monkeypatch.setattr(module, "bundled_migrations", lambda: list(migrations))
