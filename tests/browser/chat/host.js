// A minimal chat: a client of Waybook's server, and the official library that connects the app.
import {Client, StreamableHTTPClientTransport} from "@modelcontextprotocol/client";
import {AppBridge, PostMessageTransport, getToolUiResourceUri, isToolVisibilityAppOnly} from "@modelcontextprotocol/ext-apps/app-bridge";

// Content security policy that the MCP Apps extension prescribes for resources without a policy.
const POLICY = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; " +
  "img-src 'self' data:; media-src 'self' data:; connect-src 'none'; frame-src 'none'; object-src 'none'; base-uri 'self'";

const heard = {messages: [], sizes: [], app: null, calls: []};

async function chat(toolName, args, theme) {
  const client = new Client({name: "a chat", version: "0"}, {
    capabilities: {extensions: {"io.modelcontextprotocol/ui": {mimeTypes: ["text/html;profile=mcp-app"]}}},
  });
  await client.connect(new StreamableHTTPClientTransport(new URL("/mcp", location)));
  const {tools} = await client.listTools();
  const tool = tools.find(one => one.name === toolName);
  const {contents: [resource]} = await client.readResource({uri: getToolUiResourceUri(tool)});

  const bridge = new AppBridge(client, {name: "a chat", version: "0"}, {serverTools: {}, message: {text: {}}}, {hostContext: {theme}});
  // An app must not call a tool that is only for models.
  const forApps = new Set(tools.filter(one => one._meta?.ui?.visibility?.includes("app") ?? true).map(one => one.name));
  bridge.oncalltool = params => {
    heard.calls.push(params.name);
    if (!forApps.has(params.name)) throw new Error(`${params.name} is not for apps`);
    return client.callTool(params);
  };
  bridge.onmessage = async ({content}) => { heard.messages.push(content[0].text); return {}; };
  bridge.onsizechange = ({height}) => {
    heard.sizes.push(height);
    document.querySelector("iframe").style.height = `${height}px`;
  };
  const begun = new Promise(done => { bridge.oninitialized = done; });
  const frame = document.querySelector("iframe");
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.srcdoc = resource.text.replace(/<meta charset/, `<meta http-equiv="content-security-policy" content="${POLICY}"><meta charset`);
  await begun;
  heard.app = bridge.getAppVersion();
  await bridge.sendToolInput({arguments: args});
  const result = await client.callTool({name: toolName, arguments: args});
  await bridge.sendToolResult(result);
  Object.assign(window, {bridge, result});
  return {
    mimeType: resource.mimeType,
    meta: resource._meta,
    bytes: new TextEncoder().encode(resource.text).length,
    forModels: tools.filter(one => !isToolVisibilityAppOnly(one)).map(one => one.name),
  };
}

Object.assign(window, {chat, heard});
document.title = "Ready";
