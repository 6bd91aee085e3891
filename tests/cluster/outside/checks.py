"""Plays Healthchecks.io: its Management API, version 3, and the pings.

Like the real one it needs the key of the API in `X-Api-Key` (401), makes a check or updates the one with equal `unique` fields (201 or 200),
refuses invalid schedules (400) and more than five checks (403), and a check is up from its first ping on, down when told so, or paused.
There is no package of the real one, which is a Django project. Its webhooks are sent by the test.
"""

import datetime
import re
import uuid

from serving import serve

KEY = "not-a-real-key"
LIMIT = 5

checks = {}


def now():
    return datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0).isoformat()


def answer(method, path, headers, body):
    if path.startswith("/ping/"):
        return ping(*path.removeprefix("/ping/").split("/"))
    if headers.get("X-Api-Key") != KEY:
        return 401, {"error": "missing api key"}
    parts = path.split("?")[0].removeprefix("/api/v3/checks/").strip("/").split("/")
    if not path.startswith("/api/v3/checks/"):
        return 404, {"error": "not found"}
    if parts == [""]:
        return (200, {"checks": list(checks.values())}) if method == "GET" else make(body)
    check = checks.get(parts[0])
    if check is None:
        return 404, {"error": "not found"}
    if method == "GET":
        return 200, check
    if method == "DELETE":
        return 200, checks.pop(parts[0])
    if parts[1:] == ["pause"]:
        check["status"] = "paused"
        return 200, check
    if parts[1:] == ["resume"]:
        if check["status"] != "paused":
            return 409, {"error": "check is not paused"}
        check["status"] = "new"
        return 200, check
    return update(check, body, 200)


def make(body):
    unique = body.pop("unique", [])
    for check in checks.values():
        if unique and all(check.get(key) == body.get(key) for key in unique):
            return update(check, body, 200)
    if len(checks) >= LIMIT:
        return 403, {"error": "the account has too many checks"}
    identity = str(uuid.uuid4())
    check = {"uuid": identity, "name": "", "tags": "", "desc": "", "grace": 3600, "n_pings": 0, "status": "new", "last_ping": None}
    check["ping_url"] = f"https://hc-ping.com/{identity}"
    answered = update(check, body, 201)
    if answered[0] == 201:
        checks[identity] = check
    return answered


def update(check, body, status):
    schedule = body.get("schedule")
    if schedule is not None and not re.fullmatch(r"([0-9*/,-]+ ){4}[0-9*/,-]+", schedule):
        return 400, {"error": "json validation error: schedule is not a valid cron expression"}
    if "timeout" in body and not 60 <= body["timeout"] <= 31536000:
        return 400, {"error": "json validation error: timeout is too small"}
    # A check has either a period or a schedule.
    if schedule is not None:
        check.pop("timeout", None)
    if "timeout" in body:
        check.pop("schedule", None)
        check.pop("tz", None)
    check.update(body)
    return status, check


def ping(identity, action=""):
    check = checks.get(identity)
    if check is None:
        return 404, {"error": "not found"}
    check["n_pings"] += 1
    check["last_ping"] = now()
    check["status"] = "down" if action == "fail" else "up"
    return 200, "OK"


serve(answer)
