"""Plays the API of `examples/http`: records by their names, with a token. It is the example's own, so there is no real one."""

from serving import serve

TOKEN = "not-a-real-token"
records = {}


def answer(method, path, headers, body):
    if path == "/v1/records" and method == "GET":
        return 200, records
    name = path.removeprefix("/v1/records/")
    if headers.get("Authorization") != f"Bearer {TOKEN}":
        return 401, {"reason": "no token"}
    if method == "PUT":
        if body["address"].startswith("198.51.100."):
            return 422, {"reason": "reserved"}
        status = 200 if name in records else 201
        records[name] = {"id": f"r-{name}", "address": body["address"]}
        return status, records[name]
    if method == "DELETE":
        return (204, None) if records.pop(name, None) else (404, {"reason": "there is no such record"})
    return 405, {"reason": "GET is for the list"}


serve(answer)
