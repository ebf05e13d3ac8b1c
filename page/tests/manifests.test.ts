import assert from "node:assert/strict";
import { test } from "node:test";
import { readManifests } from "../src/manifests";

const documents = (text: string) =>
  readManifests(text).map((document) =>
    "error" in document ? `! ${document.error}` : `${document.manifest.kind} ${document.manifest.namespace}/${document.manifest.name}`,
  );
const pod = (name: string) => `apiVersion: v1\nkind: Pod\nmetadata: {name: ${name}, namespace: shop}\n`;

test("documents are divided where YAML divides them", () => {
  assert.deepEqual(documents(`---\n# first\n${pod("a")}--- # next\n${pod("b")}---\n\n---\r\n${pod("c")}`), [
    "Pod shop/a",
    "Pod shop/b",
    "Pod shop/c",
  ]);
  assert.deepEqual(documents("# nothing\n---\n"), []);
  assert.deepEqual(documents(""), []);
  const text = `${pod("a")}data: |\n  ---\n  no end\n`;
  assert.deepEqual(documents(text), ["Pod shop/a"]);
});

test("each goes to the server as it was written", () => {
  const [first] = readManifests(`${pod("a")}flag: yes # as the server reads it\n`);
  assert.ok(first && "manifest" in first && first.manifest.body.includes("flag: yes # as"));
});

test("JSON and lists", () => {
  assert.deepEqual(documents('{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}'), ["Node /n"]);
  assert.deepEqual(
    documents("apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Node, metadata: {name: a}}\n- 5\n"),
    ["Node /a", "! expected an object with apiVersion, kind and metadata"],
  );
});

test("what is wrong is named, and the others are still read", () => {
  const [broken, good] = documents(`a: [1\n---\n${pod("b")}`);
  assert.match(broken ?? "", /^! /);
  assert.equal(good, "Pod shop/b");
  assert.deepEqual(documents("kind: Pod\nmetadata: {name: a}\n"), ["! apiVersion is missing"]);
  assert.deepEqual(documents("apiVersion: v1\nkind: Pod\nmetadata: {}\n"), ["! metadata.name is missing"]);
  assert.deepEqual(documents("apiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n"), [
    "! metadata.name: expected a text, got 7; put it into quotes",
  ]);
  assert.deepEqual(documents("just text"), ["! expected an object with apiVersion, kind and metadata"]);
  assert.deepEqual(documents("apiVersion: v1\nkind: Pod\nmetadata: 5\n"), ["! metadata.name is missing"]);
});
