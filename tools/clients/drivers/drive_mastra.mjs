// Agent for the compatibility test with Mastra. It is copied next to the packages that it imports.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Agent } from "@mastra/core/agent";
import { MCPClient } from "@mastra/mcp";

const trial = JSON.parse(process.argv[2]);
const [command, ...args] = trial.command;
const server =
  trial.transport === "stdio"
    ? { command, args, env: trial.environment }
    : { url: new URL(trial.url) };
const client = new MCPClient({ servers: { waybook: server }, timeout: 60000 });
const models = createOpenAICompatible({ name: "scripted", baseURL: `${trial.model_url}/v1` });
const agent = new Agent({
  id: "worker",
  name: "worker",
  instructions: "Use the tools.",
  model: models("scripted"),
  tools: await client.listTools(),
});
await agent.generate(trial.prompt, { maxSteps: 30 });
await client.disconnect();
