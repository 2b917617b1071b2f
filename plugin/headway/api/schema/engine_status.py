"""The engine in the status: its state, its warm-up and its memory."""

from __future__ import annotations

from pydantic import Field

from headway.api.schema.base import Answer, StepTime


class WarmupStatus(Answer):
    """The warm-up: pending, running, done, skipped or failed."""

    state: str = ""
    reason: str = Field(default="", description="Why the last attempt failed.")
    attempt: int = 0
    single_s: float | None = Field(default=None, description="Duration of the last single request.")
    batch_s: float | None = Field(default=None, description="Duration of the last full batch.")
    batch_size: int | None = None
    stages: dict[str, list[float]] = Field(default={}, description="The duration of every round of each stage.")
    refused: list[str] = Field(default=[], description="The stages that the engine does not support.")
    settled: bool = Field(default=False, description="Whether the last two batches took equally long.")
    first_token_ratio: float | None = Field(
        default=None, description="First token of a request alone before the warm-up, as a multiple of that after it."
    )
    ordered: bool = Field(default=False, description="Whether a warm-up by command runs now, beside the traffic.")


class MemoryStatus(Answer):
    """Memory maintenance since the server started."""

    cap_ratio: float = Field(default=1.0, description="The share of the seats that memory allows.")
    host_usage_ratio: float = Field(
        default=0.0,
        description="The share in use of the memory that the server may use: by its own processes, or by all on the "
        "machine where its control group has no smaller limit.",
    )
    cleared: dict[str, int] = Field(default={}, description="Cache clears, by cache.")
    recycled: dict[str, int] = Field(default={}, description="Engines that were replaced alive, by trigger.")
    longest_gc_pause_s: float | None = Field(default=None, description="The longest pause by Python's collector.")
    recycling: bool = Field(default=False, description="Whether a recycle is in progress.")
    recycle_form: str = Field(
        default="",
        description="How the new engine of the last recycle was started: beside the old engine, or after the old "
        "engine ended, and why. Empty before the first.",
    )


class UnloadedTimes(Answer):
    """The engine's times for a request alone; relative objectives are multiples of them."""

    token_s: float = Field(description="Between two tokens of a single sequence.")
    prefill_token_s: float = Field(
        description="For each token of a prompt; its first token takes `token_s` more than all of them."
    )
    source: str = Field(
        default="",
        description="The basis of the figures: single `steps` of this engine, `intervals` of steps, or costs "
        "`recalled` from an earlier run.",
    )


class StepsStatus(Answer):
    """The steps that the step policy planned: those with prompts beside sequences that decode.

    The counts are since the engine's start, the shares and ``longest_held_s`` of the last half minute.
    """

    planned: int
    pressed: int = Field(
        description="Steps of these with more for prompts than usual, so that no first token misses its objective."
    )
    held: int = Field(description="Steps of these that postponed tokens of a prompt.")
    prompt_tokens: int
    decode_tokens: int
    budget_tokens: int = Field(description="The most tokens allowed of both.")
    total_s: float = Field(description="The time of these steps.")
    prefill_s: float = Field(description="The part spent on prompts, by the fitted costs.")
    target_s: float = Field(description="The target of the part spent on prompts.")
    prefill_share: float | None = Field(default=None, description="null: no step was planned in the last half minute.")
    target_share: float | None = None
    longest_held_s: float = Field(
        default=0.0, description="The longest time in the engine of a prompt with postponed tokens."
    )


class EngineStatus(Answer):
    """The engine. ``state`` and the fields below it are empty where no supervisor watches the engine."""

    backend: str = Field(default="", description="The device type, or router, or simulated.")
    version: str = Field(default="", description="The version of vLLM; empty without vLLM, and in a simulation.")
    healthy: bool = False
    core_limit: int | None = Field(default=None, description="The seat limit that the engine has confirmed.")
    running: int = 0
    waiting: int = 0
    kv_cache_usage_ratio: float = 0.0
    kv_cache_tokens: int | None = Field(
        default=None, description="Capacity of the KV cache in tokens; null before the first step."
    )
    step_time: StepTime | None = Field(default=None, description="null until enough steps were seen.")
    unloaded: UnloadedTimes | None = Field(default=None, description="null until enough steps were seen.")
    dtype: str = Field(default="", description="The type of the weights, such as bfloat16.")
    quantization: str = Field(default="", description="The method by which the weights are quantised, or none.")
    kv_cache_dtype: str = Field(default="", description="The type in which the KV cache is kept.")
    max_model_len: int | None = Field(default=None, description="The longest sequence, prompt and answer, in tokens.")
    step_tokens: int | None = Field(default=None, description="The most tokens that one step computes.")
    steps: StepsStatus | None = Field(default=None, description="null: no step was planned since the engine's start.")
    state: str = Field(default="", description="up, silent, restarting or lost")
    restart_step: str = Field(default="", description="The present step of a restart; empty without a restart.")
    restart_attempts: int = Field(default=0, description="Restart attempts since the last healthy engine.")
    max_restart_attempts: int = Field(default=0, description="0 where the server cannot replace its engine.")
    deaths: dict[str, int] = Field(default={}, description="Engine deaths, by cause.")
    hangs: int = Field(default=0, description="Times the engine was unresponsive for too long.")
    stuck: str = Field(
        default="",
        description="Why the engine steps without any token: kv_full, not_admitted, grammar, deferred or no_tokens; "
        "empty while it serves.",
    )
    stuck_s: float = Field(default=0.0, description="For how long it has been stuck.")
    crash_suspects: int = Field(default=0, description="Requests that are retried alone after an engine death.")
