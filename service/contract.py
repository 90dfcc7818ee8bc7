"""The base of every pydantic document of the service, and the parts that several of them share."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictStr, WithJsonSchema

from .settings import ScoreSettings

EXAMPLE_REFERENCE = (
    'Step 1: {"action": "add", "objects": ["lysis buffer"], "parameters": ["5 ml"]}\n'
    'Step 2: {"action": "centrifuge", "objects": ["lysate"], "parameters": ["300 × g", "5 min"]}'
)
EXAMPLE_RESPONSE = (
    "<think>Lyse the cells, then clear the lysate.</think>\n"
    f"<key>\n{EXAMPLE_REFERENCE}\n</key>\n"
    "<orc>\nStep 1: Add 5 ml of lysis buffer.\nStep 2: Centrifuge the lysate at 300 × g for 5 minutes.\n</orc>\n"
    "<note>Work on ice.</note>"
)
EXAMPLE_COMPONENTS = {
    "format": 1.0,
    "consistency": 1.0,
    "coverage": 1.0,
    "step_gap": 1.0,
    "mean_words": 8.0,
    "scale": 1.0,
    "order": 1.0,
    "content": 1.5,
    "semantics": 2.5,
    "anchors": 2.0,
    "score": 2.5,
    "quantity_errors": 0.0,
}


class Contract(BaseModel):
    """Base of the models of the contract: they accept no other fields than the described ones."""

    model_config = ConfigDict(extra="forbid")


class Step(Contract):
    """One key step of a reference."""

    action: StrictStr = Field(pattern=r"\S", description="At least one word.")
    objects: list[StrictStr]
    parameters: list[StrictStr]


class Steps(Contract):
    """A reference given as its steps."""

    steps: list[Step] = Field(min_length=1)


KeyLines = Annotated[StrictStr, Field(pattern=r"\{", description="Text with at least one key step: `Step 1: {…}`.")]


class AnyOf(Contract):
    """A reference with alternatives, of which the best counts for each response."""

    any_of: list[KeyLines | Steps] = Field(min_length=1, max_length=16)


class Label(BaseModel):
    """A reference and the task that it belongs to; other members are ignored (docs/rules.md, References)."""

    model_config = ConfigDict(extra="allow")

    task: StrictStr | None = Field(description="A task of GET /v1/tasks; null for SCORE.")
    reference: JsonValue = Field(
        default=None, description="Without it, the steps or the alternatives of a label of SCORE count."
    )


Reference = KeyLines | Steps | AnyOf | Annotated[list[KeyLines | Steps], Field(min_length=1, max_length=16)] | Label
"""A reference of SCORE; a list is the same as `any_of`."""


Overrides = Annotated[dict[str, Any], WithJsonSchema(ScoreSettings.model_json_schema() | {"title": "Overrides"})]
"""A request's settings, which `ScoreSettings.overridden` validates."""
