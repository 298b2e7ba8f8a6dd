"""Columns that the serving role may update, and only in the rows of its own org."""

import psycopg
from psycopg import sql

from auth_env import make_token
from foreign_records import make_review_link
from org_env import OrgEnv
from waybook.app.accounts.authentication import start_by_token

COLUMNS = """select c.relname, a.attname
               from pg_attribute a join pg_class c on c.oid = a.attrelid
              where c.relnamespace = 'public'::regnamespace and a.attacl is not null"""
TOUCH = sql.SQL("update {0} set {1} = {1} where org_id = {2}")


async def test_serving_role_cannot_change_columns_in_rows_of_another_org(world: OrgEnv) -> None:
    for agent in (world.agent, world.other_org):
        token = await make_token(agent)
        await start_by_token(world.dispatcher.services, token.secret)
        await make_review_link(agent)
    with psycopg.connect(world.place.app_dsn) as connection:
        if world.place.server.role:
            connection.execute(f"set local role {world.place.server.role}".encode())
        connection.execute(f"set local app.org_id = '{world.agent.org_id}'".encode())
        columns = connection.execute(COLUMNS).fetchall()
        assert {table for table, _ in columns} == {
            *("org", "org_user", "api_token", "web_session", "access_link")
        }
        for table, column in columns:
            named = sql.Identifier(table), sql.Identifier(column)
            touched = [
                connection.execute(TOUCH.format(*named, org_id)).rowcount
                for org_id in (world.agent.org_id, world.other_org.org_id)
            ]
            assert touched == [1, 0], (table, column)
