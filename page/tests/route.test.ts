import assert from "node:assert/strict";
import { test } from "node:test";
import { formatRoute, parseRoute, podLink, tokenOf } from "../src/route";

test("a route survives its address", () => {
  for (const [view, path, query] of [
    ["nodes", [], {}],
    ["nodes", ["node-1"], { resource: "nvidia.com/gpu", group: "pool" }],
    ["pod", ["name space", "a/b?c#d%e"], {}],
    ["queue", [], { filter: "a&b=c" }],
  ] as const) {
    const route = parseRoute(formatRoute(view, [...path], query));
    assert.deepEqual(route, { view, path: [...path], query: { ...query } });
  }
});

test("what is no route is the first view", () => {
  for (const hash of ["", "#", "#/", "#/nowhere", "#main"]) assert.equal(parseRoute(hash).view, "nodes");
  assert.deepEqual(parseRoute("#/pod/%zz/b").path, ["%zz", "b"]);
});

test("a link that logs in", () => {
  assert.equal(tokenOf("#token=abc.d-e_f"), "abc.d-e_f");
  assert.equal(tokenOf(podLink("default", "token=x")), null);
  assert.equal(tokenOf(""), null);
});
