"""Options of the evaluations that ask a judge."""

from __future__ import annotations

from pydantic import Field

from ..task import LOCAL, Options

__all__ = ["JudgeOptions"]


class JudgeOptions(Options):
    """Options of a judge: its address, and how it is asked."""

    base_url: str | None = Field(
        None,
        pattern=r"^https?://[^\s@]+$",
        description="The judge: an OpenAI-compatible address up to /v1. Its key is in the environment variable "
        "ASSAY_JUDGE_KEY.",
        json_schema_extra=LOCAL,
    )
    model: str = Field("default", description="The judge's model.", json_schema_extra=LOCAL)
    temperature: float | None = Field(None, ge=0, le=2, description="Passed on to the judge.")
    seed: int | None = Field(None, description="Passed on to the judge, plus 1 for each further request.")
    max_tokens: int = Field(8192, ge=1, le=65536, description="Maximum number of tokens in a reply.")
    concurrency: int = Field(8, ge=1, le=64, description="Requests at the same time.", json_schema_extra=LOCAL)
    timeout: float = Field(
        60.0, gt=0, le=600, description="Time limit for a request, in seconds.", json_schema_extra=LOCAL
    )
    retries: int = Field(3, ge=0, le=10, description="Number of retries after a fault.", json_schema_extra=LOCAL)
    replies: str | None = Field(
        None,
        min_length=1,
        description="A JSONL file that keeps the judge's replies: questions with a reply in it are not asked again.",
        json_schema_extra=LOCAL,
    )

    @property
    def has_judge(self) -> bool:
        return self.base_url is not None or self.replies is not None
