"""What must a policy of your own keep? One function a kind of policy, to be called from your own tests.

    from headway_policies.conformance.orders import check_discipline

    def test_my_line() -> None:
        check_discipline(MyLine)

Each runs seeded, repeatable histories against an independent book and raises AssertionError with one sentence that
names the seed and the step. What it costs is not checked here: time is no fit matter for an assertion.
"""
