import assert from "node:assert/strict";
import { test } from "node:test";
import { EventReader } from "../src/sse";

const STREAM = 'event: hello\ndata: {"a":1}\n\n: still here\n\nevent: nodes\r\ndata: one\r\ndata: two\r\n\r\ndata:bare\n\n';
const EVENTS = [
  { name: "hello", data: '{"a":1}' },
  { name: "nodes", data: "one\ntwo" },
  { name: "message", data: "bare" },
];

test("events come out whole, in whatever pieces the text comes", () => {
  for (let size = 1; size <= STREAM.length; size++) {
    const reader = new EventReader();
    const found = [];
    for (let at = 0; at < STREAM.length; at += size) found.push(...reader.read(STREAM.slice(at, at + size)));
    assert.deepEqual(found, EVENTS, `in pieces of ${size}`);
  }
});
