"""Tools, prompts and resources that the MCP conformance suite expects from a server."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import mcp_types as wire
from mcp.server.subscriptions import InMemorySubscriptionBus, PromptsListChanged, ToolsListChanged
from mcp.shared.exceptions import MCPError

from waybook.transport.jsonrpc import Context

PNG: Final = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
    "rkJggg=="
)
WAV: Final = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="

Result = dict[str, object]
Params = wire.CallToolRequestParams
Handler = Callable[[Context, Params], Awaitable[Result]]


def text(words: str) -> Result:
    return {"content": [{"type": "text", "text": words}]}


def resource(uri: str, mime_type: str, words: str) -> Result:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": words}}


PICTURE: Final[Result] = {"type": "image", "data": PNG, "mimeType": "image/png"}
EMBEDDED: Final = "This is an embedded resource content."

CONTENTS: Final[Mapping[str, Result]] = {
    "test_simple_text": text("This is a simple text response for testing."),
    "test_image_content": {"content": [PICTURE]},
    "test_audio_content": {"content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}]},
    "test_embedded_resource": {
        "content": [resource("test://embedded-resource", "text/plain", EMBEDDED)]
    },
    "test_multiple_content_types": {
        "content": [
            {"type": "text", "text": "Multiple content types test:"},
            PICTURE,
            resource(
                "test://mixed-content-resource", "application/json", '{"test":"data","value":123}'
            ),
        ]
    },
    "test_error_handling": {
        "isError": True,
        **text("This tool intentionally returns an error for testing"),
    },
    "json_schema_2020_12_tool": text("done"),
    "test_header": text("done"),
    "test_logging_tool": text("done"),
    "test_streaming_elicitation": text("done"),
}


def ask(message: str, field: str, kind: str = "string") -> Result:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": schema},
    }


def sample(words: str) -> Result:
    message = {"role": "user", "content": {"type": "text", "text": words}}
    return {"method": "sampling/createMessage", "params": {"messages": [message], "maxTokens": 100}}


ROOTS: Final[Result] = {"method": "roots/list", "params": {}}

# For each tool, the requests for user input that it sends, with one dict per round. The tool sends
# the number of the round as its request state, and the client returns this number with the input of
# the user.
ROUNDS: Final[Mapping[str, list[dict[str, Result]]]] = {
    "test_input_required_result_elicitation": [{"user_name": ask("What is your name?", "name")}],
    "test_input_required_result_sampling": [
        {"capital_question": sample("What is the capital of France?")}
    ],
    "test_input_required_result_list_roots": [{"client_roots": ROOTS}],
    "test_input_required_result_request_state": [{"confirm": ask("Confirm", "ok", "boolean")}],
    "test_input_required_result_tampered_state": [{"confirm": ask("Confirm", "ok", "boolean")}],
    "test_input_required_result_capabilities": [{"question": sample("Go on?")}],
    "test_input_required_result_multiple_inputs": [
        {
            "user_name": ask("What is your name?", "name"),
            "greeting": sample("Generate a greeting"),
            "client_roots": ROOTS,
        }
    ],
    "test_input_required_result_multi_round": [
        {"step1": ask("Step 1: What is your name?", "name")},
        {"step2": ask("Step 2: What is your favorite color?", "color")},
    ],
}


def next_round(
    rounds: list[dict[str, Result]], responses: Mapping[str, object] | None, state: str | None
) -> Result | None:
    """Return the tool's next request for user input, or None after the last round."""
    number = int(state or 0)
    if responses and set(rounds[number]) <= set(responses):
        number += 1
    if number == len(rounds):
        return None
    return {
        "resultType": "input_required",
        "inputRequests": rounds[number],
        "requestState": str(number),
    }


async def need_sampling(ctx: Context, _: Params) -> Result:
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise MCPError(
            wire.MISSING_REQUIRED_CLIENT_CAPABILITY,
            "Sampling is needed",
            {"requiredCapabilities": {"sampling": {}}},
        )
    return text("done")


PROMPTS: Final[Mapping[str, tuple[str, ...]]] = {
    "test_simple_prompt": (),
    "test_prompt_with_arguments": ("arg1", "arg2"),
    "test_prompt_with_embedded_resource": ("resourceUri",),
    "test_prompt_with_image": (),
    "test_input_required_result_prompt": (),
}
CONTEXT: Final = [{"user_context": ask("What context should the prompt use?", "context")}]


def prompt_contents(params: wire.GetPromptRequestParams) -> list[Result]:
    arguments = params.arguments or {}
    match params.name:
        case "test_prompt_with_arguments":
            words = "Prompt with arguments: arg1='{arg1}', arg2='{arg2}'".format(**arguments)
            return [{"type": "text", "text": words}]
        case "test_prompt_with_embedded_resource":
            embedded = "Embedded resource content for testing."
            return [
                resource(arguments["resourceUri"], "text/plain", embedded),
                {"type": "text", "text": "Please process the embedded resource above."},
            ]
        case "test_prompt_with_image":
            return [PICTURE, {"type": "text", "text": "Please analyze the image above."}]
    return [{"type": "text", "text": "This is a simple prompt for testing."}]


async def get_prompt(_: Context, params: wire.GetPromptRequestParams) -> Result:
    if params.name == "test_input_required_result_prompt":
        input_request = next_round(CONTEXT, params.input_responses, params.request_state)
        if input_request is not None:
            return input_request
    messages = [{"role": "user", "content": content} for content in prompt_contents(params)]
    return {"messages": messages}


STATIC: Final[Mapping[str, Result]] = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://template/123/data": {
        "mimeType": "application/json",
        "text": '{"id":"123","templateTest":true,"data":"Data for ID: 123"}',
    },
}


def handlers(bus: InMemorySubscriptionBus) -> Mapping[str, Handler]:
    async def content(_: Context, params: Params) -> Result:
        return CONTENTS[params.name]

    async def in_rounds(_: Context, params: Params) -> Result:
        input_request = next_round(
            ROUNDS[params.name], params.input_responses, params.request_state
        )
        return input_request if input_request is not None else text("Hello, state-ok!")

    async def greet(_: Context, params: Params) -> Result:
        return text(f"Hello, {(params.arguments or {})['name']}!")

    async def change_tools(_: Context, __: Params) -> Result:
        await bus.publish(ToolsListChanged())
        return text("done")

    async def change_prompts(_: Context, __: Params) -> Result:
        await bus.publish(PromptsListChanged())
        return text("done")

    return {
        **dict.fromkeys(CONTENTS, content),
        **dict.fromkeys(ROUNDS, in_rounds),
        "greet": greet,
        "test_missing_capability": need_sampling,
        "test_trigger_tool_change": change_tools,
        "test_trigger_prompt_change": change_prompts,
    }
