"""Database objects and queries that the schema check accepts, with reasons."""

from typing import Final

#: Accepted database objects.
OBJECTS: Final = {
    "schema_migration": "belongs to no org; it stays on the coordinator",
    "org_slug_key": "org is a reference table, with all its rows on every node",
}

_UNKNOWN_ORG = "the org is not known before the secret is looked up"
_DIRECTORY = "lists the orgs, a reference table"
_ERASURES = "lists erased orgs for the operator"

#: Accepted queries without an org condition. Row-level security still limits the rows they get.
QUERIES: Final = {
    "accounts/accounts.name_org_by_token": _UNKNOWN_ORG,
    "accounts/accounts.name_org_by_session": _UNKNOWN_ORG,
    "accounts/accounts.bearer_of_token": _UNKNOWN_ORG,
    "accounts/accounts.person_of_session": _UNKNOWN_ORG,
    "links.name_org_by_link": _UNKNOWN_ORG,
    "links.link_by_hash": _UNKNOWN_ORG,
    "accounts/accounts.name_org_by_slug": _DIRECTORY,
    "accounts/accounts.org_of_slug": _DIRECTORY,
    "accounts/accounts.orgs": _DIRECTORY,
    "accounts/accounts.member": "the org is not known before its slug is looked up",
    "maintenance/erasure.find_org": _DIRECTORY,
    "maintenance/retention.orgs": _DIRECTORY,
    "maintenance/retention.erased_orgs": _ERASURES,
    "maintenance/backup.orgs": _ERASURES,
    "maintenance/owner.all_org_ids": _ERASURES,
}
