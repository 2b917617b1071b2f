"""Sharing: how many seats each of several models on one machine has, and each of several fronts of an instance's."""

from headway_policies.sharing.fronts import FrontClaims, FrontShare
from headway_policies.sharing.max_min import fill
from headway_policies.sharing.model_load import ModelLoad, Share
from headway_policies.sharing.pauses import PauseTerms
from headway_policies.sharing.seat_shares import SeatShares

__all__ = ["FrontClaims", "FrontShare", "ModelLoad", "PauseTerms", "SeatShares", "Share", "fill"]
