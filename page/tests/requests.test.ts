import assert from "node:assert/strict";
import { test } from "node:test";
import { Refusal, failureInWords, messageOf } from "../src/requests";

test("failures are in words", async () => {
  assert.equal(failureInWords(new TypeError("Failed to fetch")), "the server cannot be reached; is it still running?");
  assert.equal(failureInWords(new Refusal(403, "pods is forbidden")), "pods is forbidden");
  const answered = (status: number, body: string) => messageOf(new Response(body, { status }));
  assert.equal(await answered(403, '{"message": "not for you"}'), "not for you");
  assert.equal(await answered(502, "<html>Bad Gateway</html>"), "the proxy does not reach the server");
  assert.equal(await answered(418, ""), "the server answered with status 418");
});
