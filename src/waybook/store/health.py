"""Questions an operator asks the database about itself."""

from waybook.store.sql import load

SQL = load("health")
