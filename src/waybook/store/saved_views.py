"""Queries for saved views: filters of a list that a user stored under a name."""

from typing import NamedTuple

from waybook.store.driver.queries import Statement, load


class SavedViewRow(NamedTuple):
    name: str
    query: str


SQL = load("saved_views", views=SavedViewRow)


def views_statement(user: str, page: str, most: int) -> Statement:
    return SQL["views"](user_name=user, page=page, most=most)


def save_statements(user: str, page: str, view: SavedViewRow, most: int) -> list[Statement]:
    """Return the statements that store a view, and check the maximum number of views."""
    return [
        delete_statement(user, page, view.name),
        SQL["insert_view"](user_name=user, page=page, name=view.name, query=view.query),
        SQL["delete_excess_view"](user_name=user, page=page, name=view.name, most=most),
    ]


def delete_statement(user: str, page: str, name: str) -> Statement:
    return SQL["delete_view"](user_name=user, page=page, name=name)
