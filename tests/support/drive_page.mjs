// Opens pages in headless Chromium and runs a script there; prints what it returns as JSON.
//
//     node drive_page.mjs FOLDER CHROMIUM PROFILE SCRIPT
//
// FOLDER/node_modules holds puppeteer-core. PROFILE is a folder for Chromium. The file SCRIPT is the
// body of an async function. It opens pages with `await open(url, width, height)`. Errors of pages are
// among the problems in the result.

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

const [folder, executablePath, userDataDir, file] = process.argv.slice(2);
const require = createRequire(path.join(path.resolve(folder), "index.js"));
const { default: puppeteer } = await import(require.resolve("puppeteer-core"));
const browser = await puppeteer.launch({
  executablePath, userDataDir, pipe: true,
  args: [
    "--no-sandbox", "--disable-extensions", "--enable-unsafe-webgpu",
    "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan",
  ],
});
const problems = [];

async function open(url, width = 1280, height = 800) {
  const page = await browser.newPage();
  page.on("console", (line) => {
    if (line.type() === "error") problems.push(line.text());
  });
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("requestfailed", (request) => problems.push(`no answer: ${request.url()}`));
  page.on("response", (response) => {
    if (response.status() >= 400) problems.push(`${response.status()}: ${response.url()}`);
  });
  page.setDefaultTimeout(120000); // a busy machine
  await page.setViewport({ width, height });
  await page.goto(url);
  return page;
}

const AsyncFunction = (async () => undefined).constructor;
const script = new AsyncFunction("open", fs.readFileSync(file, "utf8"));
try {
  const result = await script(open);
  console.log(JSON.stringify({ result, problems }));
} finally {
  await browser.close();
}
