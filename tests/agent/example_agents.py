"""The page "Bring your agent", as a file: ``AGENT_SERVER_AGENTS=tests.agent.example_agents:AGENTS``.

Three agents, all on the deployment's model (``AGENT_SERVER_MODEL``): one declared for this server, with tools of every
kind and an MCP server; its sub-agent, whose output has a shape; and one written for plain pydantic-ai, registered as it is.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai import ModelRetry, RunContext

from app.agent.declare import (
    Agent,
    Limits,
    RequestContext,
    Tool,
    ToolContext,
    ToolError,
    client_tool,
    mcp,
    model,
    own,
    subagent,
    tool,
)

# --- declared for this server

ORDERS = {"ada": {"A1": 40, "A2": 900}}


@tool(retry_safe=True)
def find_orders(context: ToolContext) -> dict[str, int]:
    """The customer's orders: what each has cost, by number."""
    return ORDERS.get(context.owner, {})


@tool(needs_approval=lambda given: given["amount"] > 50, timeout_s=10)
async def refund(number: str, amount: int, context: ToolContext) -> str:
    """Pay money back for an order.

    Args:
        number: The order's number.
        amount: How much, in whole euros.
    """
    if number not in ORDERS.get(context.owner, {}):
        raise ToolError(f"There is no order {number}.")  # the model and the user read this text, and no other
    context.emit(f"refunding {amount} for {number}")  # progress, for whoever watches
    context.data("refund", {"number": number, "amount": amount}, id=number)  # a part of the message
    return f"refunded {amount}"


pick_date = client_tool("pick_date", "Let the customer pick a day in a calendar.", deadline_s=3600)


def instructions(context: RequestContext) -> str:
    return f"You help {context.owner} with orders. Answer in {context.request.get('language', 'English')}."


notes = mcp(
    command=[sys.executable, str(Path(__file__).parents[1] / "fakes" / "mcp_notes.py")],
    prefix="notes_",
    needs_approval=["forget"],
)


class Verdict(BaseModel):
    """How a complaint is judged."""

    fault: Literal["ours", "theirs", "nobody's"]
    owed: int = Field(ge=0, description="In whole euros")


judge = Agent("judge", "You judge complaints.", model(), output=Verdict)
ask_judge = subagent("ask_judge", "Have a complaint judged.", "judge")

TOOLS: list[Tool] = [find_orders, refund, pick_date, ask_judge]
support = Agent(
    "support",
    instructions,
    model(temperature=0),
    TOOLS,
    Limits(max_steps=10, max_tool_calls=20, max_seconds=120),
    toolsets=[notes],
)


# --- written for plain pydantic-ai, and registered as it is


@dataclass
class Bank:
    """What the tools of the bank's agent depend on."""

    customer: str
    balance: float


class Advice(BaseModel):
    advice: str = Field(description="What to tell the customer")
    block_card: bool = Field(description="Whether to block the customer's card")
    risk: int = Field(ge=0, le=10)


bank_agent = PydanticAgent(
    deps_type=Bank,
    output_type=Advice,
    instructions="You are a support agent of a bank: advise the customer, and judge the risk of the query.",
)


@bank_agent.instructions
def name_the_customer(ctx: RunContext[Bank]) -> str:
    return f"The customer's name is {ctx.deps.customer!r}."


@bank_agent.tool
async def customer_balance(ctx: RunContext[Bank], include_pending: bool) -> str:
    """The customer's current balance."""
    if not include_pending:
        raise ModelRetry("Ask for the pending payments too.")
    return f"{ctx.deps.balance:.2f}"


@bank_agent.tool_plain(requires_approval=True)
def close_account(reason: str) -> str:
    """Close the customer's account for good."""
    return f"closed: {reason}"


AGENTS = {
    "support": support,
    "judge": judge,
    "bank": own(bank_agent, deps=lambda context: Bank(context.owner, 123.45), limits=Limits(max_steps=10)),
}
