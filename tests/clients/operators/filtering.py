"""Handlers that are only for some objects: by labels, annotations, values of fields, and conditions."""

import kopf


def is_large(spec, **_):
    return spec.get("size", 0) > 50


@kopf.on.create("gauges", labels={"colour": "red"})
def is_red(patch, **_):
    patch.status["red"] = True


@kopf.on.create("gauges", labels={"colour": kopf.ABSENT})
def has_no_colour(patch, **_):
    patch.status["colourless"] = True


@kopf.on.create("gauges", annotations={"example.com/watched": kopf.PRESENT})
def is_watched(patch, **_):
    patch.status["watched"] = True


@kopf.on.create("gauges", when=kopf.all_([is_large, lambda name, **_: not name.startswith("x")]))
def is_large_and_plain(patch, **_):
    patch.status["large"] = True


@kopf.on.create("gauges", field="spec.mode", value="precise")
def is_precise(patch, **_):
    patch.status["precise"] = True


@kopf.on.update("gauges", field="spec.mode", old="plain", new="precise")
def becomes_precise(patch, **_):
    patch.status["became"] = "precise"


@kopf.on.create("gauges", labels={"colour": "green"})
def is_green(patch, **_):
    patch.status["green"] = True
