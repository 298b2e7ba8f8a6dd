// Print the tools whose input schemas ajv's strict mode or zod refuses, as JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [packages, list] = process.argv.slice(2);
const require = createRequire(`${packages}/`);
const Ajv = require("ajv/dist/2020").default;
const { z } = require("zod");

const refused = {};
for (const [name, { tool }] of Object.entries(JSON.parse(readFileSync(list, "utf8")))) {
  for (const accept of [
    (schema) => new Ajv({ strict: true, strictRequired: true }).compile(schema),
    (schema) => z.fromJSONSchema(schema),
  ]) {
    try {
      accept(tool.inputSchema);
    } catch (error) {
      refused[name] = error.message;
    }
  }
}
console.log(JSON.stringify(refused));
