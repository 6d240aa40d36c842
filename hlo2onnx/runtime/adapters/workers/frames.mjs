// The ends of a worker in Node: requests on its standard input, answers on its standard output.
// See frames.py for the messages.

import fs from "node:fs";

import { HEAD, lengths } from "./web_answer.mjs";

for (const name of ["log", "info", "warn", "debug"]) console[name] = console.error;

/** Writes the first message, and answers requests until there are no more. */
export async function serve(hello, answer) {
  write(hello);
  for await (const request of requests()) {
    if (isEmpty(request)) break;
    write(await answer(request));
  }
}

async function* requests() {
  let parts = [];
  let size = 0;
  for await (const chunk of process.stdin) {
    parts.push(chunk);
    size += chunk.length;
    for (let end = wanted(parts); size >= end; end = wanted(parts)) {
      const whole = Buffer.concat(parts);
      yield new Uint8Array(whole.subarray(0, end));
      parts = [whole.subarray(end)];
      size -= end;
    }
  }
}

// How many bytes the first message has, Infinity while that is unknown.
function wanted(parts) {
  if (parts[0].length < HEAD && parts.length > 1) parts.splice(0, parts.length, Buffer.concat(parts));
  if (parts[0].length < HEAD) return Infinity;
  return lengths(parts[0]).reduce((sum, length) => sum + length, HEAD);
}

function isEmpty(request) {
  return Buffer.from(request.subarray(HEAD)).toString() === "{}";
}

function write(bytes) {
  for (let at = 0; at < bytes.length; ) {
    try {
      at += fs.writeSync(1, bytes, at);
    } catch (error) {
      if (error.code !== "EAGAIN") throw error;
    }
  }
}
