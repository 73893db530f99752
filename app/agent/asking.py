"""A tool that asks while it runs: its call had begun, and waits for a person from then on."""

from app.agent.deps import Deps
from app.agent.scribe import MessageTooLarge, Scribe
from app.agent.tools import ToolResult, asked_again, too_large
from app.domain.answers import approval_id
from app.domain.call_state import ASKS, CallKind
from app.sessions.tree import Tree
from app.store.calls import Call


async def ask_person(deps: Deps, tree: Tree, scribe: Scribe, call: Call, kind: CallKind) -> ToolResult | None:
    """Makes the call one of ``kind`` that waits, and shows it; the tree waits with it once nothing executes.

    Returns the call's result when it cannot ask. Raises what a commit raises."""
    if call.kind not in ASKS:
        return asked_again()
    asked = approval_id(call.root_run, deps.new_id()) if kind is CallKind.APPROVAL else None
    try:
        await scribe.commit(
            lambda draft: draft.asks(call, asked),
            lambda message: deps.runs.ask_call(tree, call, kind, asked, message),
        )
    except MessageTooLarge:  # a child's input, which is shown only now
        return too_large()
    return None
