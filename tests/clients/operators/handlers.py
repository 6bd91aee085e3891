"""Every cause that a handler can have, with a config map that is kept beside each object."""

import kopf


@kopf.on.resume("gauges")
def resumed(patch, **_):
    patch.status["resumed"] = True


@kopf.on.create("gauges")
def created(spec, body, namespace, name, patch, **_):
    kopf.event(body, type="Normal", reason="Filling", message="The gauge is being filled.")
    patch.status["phase"] = "Created"
    return {"size": spec["size"]}


@kopf.on.update("gauges")
def updated(old, new, diff, patch, body, **_):
    patch.status["phase"] = "Updated"
    patch.status["changes"] = [[operation, ".".join(field)] for operation, field, _, _ in diff]
    kopf.warn(body, reason="Changed", message="The gauge was changed.")


@kopf.on.field("gauges", field="spec.size")
def sized(old, new, patch, **_):
    patch.status["sizes"] = [old, new]


@kopf.on.delete("gauges", retries=5)
def deleted(retry, name, namespace, **_):
    if retry == 0:
        raise kopf.TemporaryError("not at once", delay=0.5)


@kopf.on.event("gauges")
def seen(event, logger, name, **_):
    logger.info("SEEN %s %s", event["type"], name)


@kopf.on.event("configmaps", labels={"beside": kopf.PRESENT})
def beside(event, logger, name, **_):
    logger.info("BESIDE %s %s", event["type"], name)
