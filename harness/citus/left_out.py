"""Tests that do not run on a Citus cluster, with reasons."""

from typing import Final

#: Fixtures of the tests that use the cluster.
CLUSTER_FIXTURES: Final = frozenset({"server", "eighteen"})
NO_CLUSTER: Final = "they do not use the database of the fixtures"

#: Tests that do not run on a cluster, by reason. A test is given by its id or the start of its id.
LEFT_OUT: Final = {
    "they look at the locks, statistics and query plans of one server": (
        "tests/acceptance/test_canceled_calls.py::test_call_canceled_while_waiting_for_lock",
        "tests/app/test_locks.py::test_call_waiting_for_lock_reads_changes_committed_meanwhile",
        "tests/app/test_pairs.py::test_two_concurrent_calls_leave_the_plan_consistent",
        "tests/store/test_locking.py::test_call_that_waited_for_a_lock_reads_the_updated_row",
        "tests/store/test_new_database_plans.py",
        "tests/store/test_runs_speed.py",
        "tests/store/test_speed.py",
    ),
    "they read or change rows and the schema with statements that Citus does not route": (
        "tests/app/test_foreign_ids.py::test_record_id_of_another_org_gets_same_answer_as_unknown_id[18-without",
        "tests/app/test_foreign_ids.py::test_isolation_test_reports_leaks_if_row_level_security_is",
        "tests/store/test_owner_roles.py::test_rls_policies_alone_keep_owner_from_changing_other_orgs",
        "tests/store/test_owner_roles.py::test_owner_changes_are_refused_without_rls_and_org_conditions",
        "tests/store/test_tampering.py::test_audit_verification_reports_a_chain_with_all_hashes",
        "tests/store/test_tampering.py::test_audit_verification_reports_any_changed_entry",
        "tests/store/test_tenancy.py::test_server_database_role_cannot_move_rows_to_another_org",
    ),
    "they create triggers, which a distributed table cannot have": (
        "tests/app/test_quarantine.py::test_doctor_reports_a_test_search_that_breaks_the",
        "tests/app/test_quarantine.py::test_other_passages_are_indexed_although_a_passage_is_quarantined",
        "tests/app/test_quarantine.py::test_passage_",
        "tests/app/test_quarantine.py::test_quarantined_passage_is_indexed_again_after_a_day",
    ),
    "the database has the extension Citus, with its views and an event trigger": (
        "tests/store/test_distribute.py::test_distributing_a_database_without_the_citus_extension_is_refused",
        "tests/store/test_tenancy.py::test_database_has_no_rules_and_no_triggers",
        "tests/store/test_tenancy.py::test_public_schema_contains_only_tables_and_indexes",
    ),
    "the roles of transactions can log in to the nodes": (
        "tests/store/test_owner_roles.py::test_maintenance_role_has_row_access_and_no_other",
        "tests/store/test_tenancy.py::test_server_database_role_may_log_in_only_with_separate_owner_url",
    ),
    "sessions of a cluster plan each execution of a statement": (
        "tests/store/test_pooler.py::test_direct_database_connection_is_not_reported_as_a_pooler",
        "tests/store/test_pooler.py::test_every_transaction_behind_a_pooler_has_the_required",
    ),
}


def reason_of(test_id: str, fixtures: frozenset[str]) -> str | None:
    """Return the reason for which a test does not run on a cluster, or None if it runs."""
    if not fixtures & CLUSTER_FIXTURES:
        return NO_CLUSTER
    reasons = (why for why, ids in LEFT_OUT.items() if test_id.startswith(ids))
    return next(reasons, None)
