"""Plays HashiCorp Vault (or OpenBao): the KV engine version 2 at `secret/`, and logins by AppRole.

Like the real one it keeps versions of secrets, answers deleted ones with 404 and their metadata, denies requests without a valid token (403),
and answers 503 while it is sealed. The token `root` may do everything; tokens of logins may only read, until they are revoked.
The real one cannot be had here: the module proxy does not have OpenBao, and Vault takes too long to build for a test.
"""

import datetime
import secrets

from serving import serve

ROLE = {"role_id": "not-a-real-role", "secret_id": "not-a-real-secret"}
ROOT = "root"

state = {"sealed": False, "tokens": set(), "secrets": {}, "logins": 0}


def now():
    return datetime.datetime.now(datetime.timezone.utc).isoformat()


def errors(status, *texts):
    return status, {"errors": list(texts)}


def answer(method, path, headers, body):
    token = headers.get("X-Vault-Token")
    if path == "/v1/sys/unseal" and method == "POST":
        state["sealed"] = False
        return 200, {"sealed": False}
    if state["sealed"]:
        return errors(503, "Vault is sealed")
    if path == "/v1/auth/approle/login" and method == "POST":
        return login(body or {})
    if token != ROOT and token not in state["tokens"]:
        return errors(403, "permission denied")
    if path == "/v1/sys/seal" and token == ROOT:
        state["sealed"] = True
        return 204, None
    if path == "/v1/sys/leases/revoke-force/auth/approle" and token == ROOT:
        state["tokens"].clear()
        return 204, None
    if path == "/v1/auth/approle/role/test/logins" and token == ROOT:
        return 200, {"logins": state["logins"]}
    if path.startswith("/v1/secret/data/"):
        name = path.removeprefix("/v1/secret/data/")
        if method == "GET":
            return read(name)
        if token != ROOT:
            return errors(403, "permission denied")
        return write(name, body) if method in ("POST", "PUT") else delete(name)
    return errors(404)


def login(body):
    if body != ROLE:
        return errors(400, "invalid role or secret ID")
    token = "hvs." + secrets.token_urlsafe(24)
    state["tokens"].add(token)
    state["logins"] += 1
    return 200, {"auth": {"client_token": token, "lease_duration": 3600, "renewable": True, "token_type": "service"}}


def read(name):
    versions = state["secrets"].get(name)
    if not versions:
        return errors(404)
    newest = versions[-1]
    status = 404 if newest["metadata"]["deletion_time"] else 200
    return status, {"data": {"data": None if status == 404 else newest["data"], "metadata": newest["metadata"]}}


def write(name, body):
    versions = state["secrets"].setdefault(name, [])
    metadata = {"version": len(versions) + 1, "created_time": now(), "deletion_time": "", "destroyed": False}
    versions.append({"data": body["data"], "metadata": metadata})
    return 200, {"data": metadata}


def delete(name):
    versions = state["secrets"].get(name)
    if versions:
        versions[-1]["metadata"]["deletion_time"] = now()
    return 204, None


serve(answer)
