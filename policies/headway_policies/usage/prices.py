"""Prices by class and model, in a currency for a million tokens: a table in TOML.

currency = "EUR"
[[prices]]                   # the first that fits is taken
class = "batch"              # left out: every class
model = "llama"              # left out: every model; an adapter is a model, too
prompt = 0.40
cached = 0.04                # left out: as the prompt
output = 1.60
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from typing import Annotated, Final, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

_PER: Final = 1_000_000
_MOST: Final = 1000

Amount = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class PricesError(ValueError):
    """A table of prices that cannot be read; the text says why in one line."""


class Price(BaseModel):
    """The price of a million tokens of some requests."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    class_name: str | None = Field(default=None, alias="class")
    model: str | None = None
    prompt: Amount
    cached: Amount | None = None
    output: Amount

    def fits(self, class_name: str, model: str, adapter: str) -> bool:
        """Whether it is the price of a request of this class, of the model or of the adapter."""
        return self.class_name in (None, class_name) and self.model in (None, adapter or model)


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    currency: str = Field(default="", max_length=16)
    prices: list[Price] = Field(max_length=_MOST)


@dataclass(frozen=True, slots=True)
class Prices:
    """All prices, the first that fits first."""

    currency: str
    prices: tuple[Price, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a table. Raises PricesError."""
        try:
            table = _Table.model_validate(tomllib.loads(text))
        except tomllib.TOMLDecodeError as error:
            raise PricesError(f"no TOML: {error}") from None
        except ValidationError as error:
            first = error.errors()[0]
            raise PricesError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        return cls(table.currency, tuple(table.prices))

    def cost(
        self,
        class_name: str,
        model: str,
        adapter: str,
        *,
        prompt_tokens: float,
        cached_tokens: float,
        output_tokens: float,
    ) -> float | None:
        """The cost of these tokens; None where no price fits."""
        for price in self.prices:
            if price.fits(class_name, model, adapter):
                cached = price.prompt if price.cached is None else price.cached
                computed = prompt_tokens - cached_tokens
                return (computed * price.prompt + cached_tokens * cached + output_tokens * price.output) / _PER
        return None
