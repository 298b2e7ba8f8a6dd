// Agent for the compatibility test with the AI SDK. It is copied next to the packages that it imports.
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport } from "@ai-sdk/mcp/mcp-stdio";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, isStepCount } from "ai";

const trial = JSON.parse(process.argv[2]);
const [command, ...args] = trial.command;
const transport =
  trial.transport === "stdio"
    ? new Experimental_StdioMCPTransport({ command, args, env: trial.environment })
    : { type: "http", url: trial.url };
// Over stdio, the request for the protocol version times out if the server takes over a second to start.
const protocolVersionDiscovery = trial.transport !== "stdio";
const client = await createMCPClient({ transport, protocolVersionDiscovery });
const models = createOpenAICompatible({ name: "scripted", baseURL: `${trial.model_url}/v1` });
await generateText({
  model: models("scripted"),
  tools: await client.tools(),
  prompt: trial.prompt,
  stopWhen: isStepCount(30),
});
await client.close();
