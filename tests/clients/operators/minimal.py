"""One handler of creation, whose result goes into the status."""

import kopf


@kopf.on.startup()
def configure(settings, **_):
    # What is logged about an object is posted as an Event, too, as older versions of kopf did by themselves.
    settings.posting.loggers = True


@kopf.on.create("gauges")
def install(spec, name, logger, **_):
    logger.info("The gauge %s gets the size %s.", name, spec["size"])
    return {"size": spec["size"], "installed": True}
