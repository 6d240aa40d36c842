// Runs models in onnxruntime-web on WebGPU, on a page of headless Chromium. Without a GPU, Chromium
// computes in software (SwiftShader).
//
//     node run_webgpu.mjs FOLDER     FOLDER/node_modules holds onnxruntime-web and puppeteer-core
//
// Requests and answers go to the page and back through a server on the loopback address. When a page
// crashes, or its GPU is lost, a new browser starts. Chromium ends with this process: they share a
// pipe.

import fs from "node:fs";
import http from "node:http";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";

import { serve } from "./frames.mjs";
import { encoded, hello } from "./web_answer.mjs";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const FLAGS = [
  "--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader",
  "--enable-features=Vulkan", "--disable-extensions",
];
const PAGE = '<!doctype html><script type="module" src="/web_page.mjs"></script>';

const modules = path.join(path.resolve(process.argv[2]), "node_modules");
const { version } = JSON.parse(fs.readFileSync(path.join(modules, "onnxruntime-web/package.json")));
const require = createRequire(path.join(modules, "index.js"));
const { default: puppeteer } = await import(require.resolve("puppeteer-core"));

let request = null;
let answer = null;
let crash = null; // rejected when the page ends
const server = http.createServer((asked, response) => {
  if (asked.method === "POST") {
    const chunks = [];
    asked.on("data", (chunk) => chunks.push(chunk));
    asked.on("end", () => {
      answer = Buffer.concat(chunks);
      response.end();
    });
  } else if (asked.url === "/") {
    response.setHeader("Content-Type", "text/html").end(PAGE);
  } else if (asked.url === "/request") {
    response.end(request);
  } else {
    sendFile(asked.url, response);
  }
});

function sendFile(url, response) {
  const folder = url.startsWith("/ort/")
    ? path.join(modules, "onnxruntime-web/dist") : import.meta.dirname;
  const file = path.join(folder, path.basename(url));
  if (!fs.existsSync(file)) return response.writeHead(404).end();
  const type = file.endsWith(".wasm") ? "application/wasm" : "text/javascript";
  response.setHeader("Content-Type", type);
  fs.createReadStream(file).pipe(response);
}

function chromium() {
  for (const name of NAMES) {
    for (const folder of process.env.PATH.split(path.delimiter)) {
      const file = path.join(folder, name);
      if (fs.existsSync(file)) return file;
    }
  }
  throw new Error(`there is no Chromium: ${NAMES.join(", ")}`);
}

async function opened() {
  browser = await puppeteer.launch({
    executablePath: chromium(), args: FLAGS, pipe: true, userDataDir: folder, protocolTimeout: 0 });
  page = await browser.newPage();
  page.on("console", (message) => console.error(message.text()));
  await page.goto(`http://127.0.0.1:${server.address().port}/`);
  await page.waitForFunction("window.isReady !== undefined");
  const problem = await page.evaluate("window.isReady");
  if (problem) throw new Error(problem);
  crash = new Promise((_, reject) => page.once("error", reject));
  crash.catch(() => undefined);
}

async function reopened() {
  // In the same browser, a new page may get a renderer that has just died, and never answer.
  browser.process().kill("SIGKILL");
  await opened();
}

async function answered(bytes) {
  request = Buffer.from(bytes);
  try {
    if (await Promise.race([page.evaluate("window.work()"), crash])) return answer;
    const given = answer;
    await reopened();
    return given;
  } catch (error) {
    await reopened();
    return encoded({ error: `the page ends: ${error.message}` });
  }
}

async function main() {
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  await opened();
  await serve(hello(version), answered);
  await browser.close();
  fs.rmSync(folder, { recursive: true, force: true });
}

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "hlo2onnx-chromium-"));
let browser = null;
let page = null;
try {
  await main();
  process.exit(0);
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
