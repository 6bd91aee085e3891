import kopf
from notes import THINGS


@kopf.on.startup()
async def configure(settings, **_):
    settings.posting.enabled = False
    settings.posting.loggers = True


@kopf.on.create(*THINGS, labels={'case': 'disabled'})
async def disabled(body, logger, **_):
    logger.info('a line')
    kopf.event(body, type='Normal', reason='Event', message='an event')
    kopf.info(body, reason='Info', message='an information')
    kopf.warn(body, reason='Warn', message='a warning')
    kopf.exception(body, reason='Exception', message='an error')
    return 'done'
