"""Conformance suites for custom policies: one function for each kind of policy, to be called from tests.

    from headway_policies.conformance.orders import check_discipline

    def test_my_discipline() -> None:
        check_discipline(MyDiscipline)

Each runs seeded, repeatable histories against an independent reference and raises AssertionError with one sentence that
names the seed and the step. Cost is not checked: time is not suited to an assertion.
"""
