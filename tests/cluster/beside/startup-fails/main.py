import kopf
from notes import tell


@kopf.on.startup()
async def first(logger, **_):
    tell(logger, 'first')


@kopf.on.startup()
async def second(logger, **_):
    tell(logger, 'second')
    raise kopf.PermanentError('not today')


@kopf.on.startup()
async def third(logger, **_):
    tell(logger, 'third')


@kopf.on.cleanup()
async def tidy(logger, **_):
    tell(logger, 'cleanup')
