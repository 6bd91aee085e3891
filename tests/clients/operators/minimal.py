"""One handler of creation, whose result goes into the status."""

import kopf


@kopf.on.startup()
def configure(settings, **_):
    # Log messages about an object are also posted as Events, as older versions of kopf did by default.
    settings.posting.loggers = True


@kopf.on.create("gauges")
def install(spec, name, logger, **_):
    logger.info("The gauge %s gets the size %s.", name, spec["size"])
    return {"size": spec["size"], "installed": True}
