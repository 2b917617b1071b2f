"""The tenant of requests without keys."""

from __future__ import annotations

import pytest
from small_presets import small_preset, terms

from headway.http.access.identity import AnonymousIdentity, anonymous_entitlement
from headway_policies import bundled_presets


@pytest.mark.parametrize("name", sorted(bundled_presets()))
def test_anonymous_is_never_more_urgent_than_the_default_class(name: str) -> None:
    """Under every bundled preset, whatever class is asked for."""
    preset = bundled_presets()[name]
    entitlement, ranked = anonymous_entitlement(preset), preset.by_urgency()
    default = ranked.index(preset.default_class)
    for asked in ranked:
        used = entitlement.effective_class(asked, ranked)
        assert ranked.index(used) == max(default, ranked.index(asked))


def test_anonymous_has_caps() -> None:
    """On everything that one request can hold."""
    caps = anonymous_entitlement(bundled_presets()["balanced"]).caps
    assert caps.output_tokens
    assert caps.sequences
    assert caps.prompts


def test_the_identity_follows_a_switch_of_the_preset() -> None:
    """The identity is made once for each, and its classes are those of the preset in force."""
    one = small_preset(classes={"a": terms(2), "b": terms(1)})
    other = bundled_presets()["balanced"]
    anonymous = AnonymousIdentity()
    first = anonymous.under(one)
    assert anonymous.under(one) is first
    assert anonymous.under(other).entitlement == anonymous_entitlement(other)
    assert anonymous.under(one).entitlement == first.entitlement
